-- KEYS as in redlock_claim. ARGV 1 value   2 member   3 token   4 ttl ms
-- Restores the key on a master that lacks it. Sent only after a quorum of others still had it. The master
-- counts again from the next renewal on.
-- ->   1 done | 0 another claim has the key, or the fence leaves no room for tokens
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4]) then return 0 end
local last, token = redis.call('MGET', KEYS[2])[1], ARGV[3]
--{{next_token}}
if not number then
  redis.call('DEL', KEYS[1])
  return 0
end
if number < ARGV[3] then
  redis.call('SET', KEYS[2], ARGV[3] .. ARGV[2], 'PX', '{{FENCE_TTL_MS}}')
end
return 1
