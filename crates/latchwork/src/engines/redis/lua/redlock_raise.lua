-- KEYS as in redlock_claim. ARGV 1 value   2 member   3 token
-- Masters that granted the same claim with different tokens agree on the greatest. -> the token that stands there now | 0 not ours
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local fence = redis.call('MGET', KEYS[2])[1]
local token = fence and string.sub(fence, 1, 16) or ''
if token > ARGV[3] then return token end
redis.call('SET', KEYS[2], ARGV[3] .. ARGV[2], 'PX', '86400000')
return ARGV[3]
