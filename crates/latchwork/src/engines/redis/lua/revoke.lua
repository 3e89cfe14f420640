-- KEYS 1 holder   2 waiters
-- ARGV 1 the holder's value   2 the holder's id, if a release follows that frees the lock at once
-- With an id, leaves a mark for the holder's next renewal: a member of waiters that no waiter has. If the
-- mark cannot be written, only that message is lost. Without an id, changes the value, so that the holder's
-- next renewal does not find its own and the lease ends by itself: the holder learns of it in time.
-- ->   1 done | 0 another claim has the key by now | -1 the key has no expiry
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] then
  local left = math.max(redis.call('PTTL', KEYS[1]), 1000)
  local now = redis.call('TIME')
  local lease_end = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + left)
  redis.pcall('ZADD', KEYS[2], lease_end, '!' .. ARGV[2])
  if redis.call('PTTL', KEYS[2]) < left then redis.pcall('PEXPIRE', KEYS[2], left) end
  return 1
end
if string.sub(ARGV[1], 1, 1) == '!' then return 1 end -- Revoked before.
if redis.call('PTTL', KEYS[1]) < 0 then return -1 end
redis.call('SET', KEYS[1], '!' .. ARGV[1], 'KEEPTTL')
return 1
