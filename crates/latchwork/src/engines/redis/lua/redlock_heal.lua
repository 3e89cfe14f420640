-- KEYS as in redlock_claim. ARGV 1 value   2 member   3 token   4 ttl ms
-- Puts the key back on a master that lacks it. Sent only after a quorum of others still had it, and counted from the next
-- renewal on. -> 1 done | 0 another has it
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[4]) then return 0 end
local fence = redis.call('MGET', KEYS[2])[1]
if not fence or string.sub(fence, 1, 16) < ARGV[3] then
  redis.call('SET', KEYS[2], ARGV[3] .. ARGV[2], 'PX', '86400000')
end
return 1
