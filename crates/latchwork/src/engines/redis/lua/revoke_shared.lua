-- KEYS four, as in claim. ARGV 1 a member that holds together with others   2 its id, if it loses its lease at once, as in revoke.
-- Otherwise it is written down as another, so that its next renewal does not find it, and its lease ends on its own: the holder is
-- told in time. -> 1 done | 0 it is gone
--{{sharing}}
local call, member, T, L = redis.call, ARGV[1], together(KEYS[2])
if not shared_as(redis.pcall('GET', KEYS[1])) then return 0 end
local lease_end, token = call('ZSCORE', L, member), call('ZSCORE', T, member)
if not lease_end or not token then return 0 end
if ARGV[2] then
  local left = math.max(call('PTTL', KEYS[1]), 1000)
  redis.pcall('ZADD', KEYS[3], lease_end, '!' .. ARGV[2])
  if call('PTTL', KEYS[3]) < left then redis.pcall('PEXPIRE', KEYS[3], left) end
  return 1
end
if string.sub(member, 1, 1) == '!' then return 1 end -- It was revoked before.
call('ZREM', L, member)
call('ZREM', T, member)
call('ZADD', L, lease_end, '!' .. member)
call('ZADD', T, token, '!' .. member)
-- It may have been the only one, and both were gone for a moment.
local left = math.max(call('PTTL', KEYS[1]), 0) + 5000
call('PEXPIRE', L, left)
call('PEXPIRE', T, left)
return 1
