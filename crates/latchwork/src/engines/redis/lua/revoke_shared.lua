-- KEYS four, as in claim.
-- ARGV 1 a member that holds together with others   2 its id, if its lease ends at once, as in revoke
-- Without an id the member is renamed, so that its next renewal does not find it and its lease ends by
-- itself: the holder learns of it in time.
-- ->   1 done | 0 it is gone
--{{shared}}
local call, member, T, L = redis.call, ARGV[1], shared_keys(KEYS[2])
if not shared_as(redis.pcall('GET', KEYS[1])) then return 0 end
local lease_end, token = call('ZSCORE', L, member), call('ZSCORE', T, member)
if not lease_end or not token then return 0 end
if ARGV[2] then
  local left = math.max(call('PTTL', KEYS[1]), 1000)
  redis.pcall('ZADD', KEYS[3], lease_end, '!' .. ARGV[2])
  if call('PTTL', KEYS[3]) < left then redis.pcall('PEXPIRE', KEYS[3], left) end
  return 1
end
if string.sub(member, 1, 1) == '!' then return 1 end -- Revoked before.
call('ZREM', L, member)
call('ZREM', T, member)
call('ZADD', L, lease_end, '!' .. member)
call('ZADD', T, token, '!' .. member)
-- If it was the only member, both zsets were gone for a moment, and with them their expiry.
local left = math.max(call('PTTL', KEYS[1]), 0) + 5000
call('PEXPIRE', L, left)
call('PEXPIRE', T, left)
return 1
