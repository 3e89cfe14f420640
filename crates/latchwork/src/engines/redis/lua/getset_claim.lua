-- KEYS 1 the key. ARGV 1 now, by the client's clock   2 the end of the lease, by the same clock
--      3.. values that this claim may have set
-- SETNX, GET and GETSET in one step, so that this client at least never moves the expiry of another: a client
-- that sends the three one after the other may overwrite the value of a faster one.
-- ->   -2 granted | -1 held by a value that is not a time | ms until the holder's time has come
if redis.call('SETNX', KEYS[1], ARGV[2]) == 1 then return -2 end
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or not string.find(value, '^%d+$') then return -1 end
local is_ours = false
for i = 3, #ARGV do is_ours = is_ours or value == ARGV[i] end
-- As milliseconds, fewer than 12 digits would be a time in 1973 or before: some services count in seconds.
local left = (#value < 12 and value * 1000 or value) - ARGV[1]
if not is_ours and left > 0 then return left end
redis.call('GETSET', KEYS[1], ARGV[2])
return -2
