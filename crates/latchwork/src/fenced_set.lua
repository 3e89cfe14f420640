-- KEYS 1 what is protected   2 the greatest token it was shown
-- ARGV 1 token, 20 digits    2 value
-- ->   1 set | 0 refused: a greater token was here before
-- Compared as text of one width: as numbers, neighbours above 2^53 would be the same.
if #ARGV[1] ~= 20 then return redis.error_reply('ERR a token has 20 digits here') end
local greatest = redis.call('GET', KEYS[2])
if greatest and ARGV[1] < greatest then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
