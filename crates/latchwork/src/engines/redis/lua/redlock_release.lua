-- Releases a lock, and undoes a claim without a quorum. It touches no other claim.
-- KEYS as in redlock_claim.
-- ARGV 1 value   2 the claim id, for all attempts of the claim, or '': this attempt only
-- ->   1 the key was deleted | 0 it was not there
local holder = redis.pcall('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(holder) ~= 'string' then return 0 end
if string.sub(holder, 1, 1) == '!' then holder = string.sub(holder, 2) end -- Revoked.
if holder ~= ARGV[1] and '!' .. holder ~= ARGV[1]
    and (ARGV[2] == '' or string.sub(holder, 1, {{MEMBER_ID_END}}) ~= ARGV[2]) then
  return 0
end
return redis.call('DEL', KEYS[1])
