-- KEYS as in redlock_claim. ARGV 1 value   2 member   3 token
-- Masters that granted one claim with different tokens agree on the greatest.
-- ->   the token in the fence now | 0 another claim has the key, or there is no room for tokens
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local last, token = redis.call('MGET', KEYS[2])[1], ARGV[3]
--{{next_token}}
if not number then return 0 end
if number > ARGV[3] then return number end
redis.call('SET', KEYS[2], ARGV[3] .. ARGV[2], 'PX', '{{FENCE_TTL_MS}}')
return ARGV[3]
