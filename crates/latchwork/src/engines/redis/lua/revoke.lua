-- KEYS 1 holder   2 zset of waiters by the end of their wait lease. ARGV 1 the holder's value   2 its id, if it loses the lock at
-- once by the release that follows: the word for its next renewal, for which it stays among the waiters as no waiter is called
-- (a word that cannot be left costs only that). Otherwise the value changes, so that the holder's next renewal finds it is not its
-- own, and the lease ends on its own: the holder is told in time. -> 1 done | 0 it is another's by now | -1 it would never end
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] then
  local left = math.max(redis.call('PTTL', KEYS[1]), 1000)
  local now = redis.call('TIME')
  redis.pcall('ZADD', KEYS[2], string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + left), '!' .. ARGV[2])
  if redis.call('PTTL', KEYS[2]) < left then redis.pcall('PEXPIRE', KEYS[2], left) end
  return 1
end
if string.sub(ARGV[1], 1, 1) == '!' then return 1 end -- It was revoked before.
if redis.call('PTTL', KEYS[1]) < 0 then return -1 end
redis.call('SET', KEYS[1], '!' .. ARGV[1], 'KEEPTTL')
return 1
