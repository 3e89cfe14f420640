-- KEYS as in redlock_claim. ARGV 1 value   2 the same for every attempt of the claim, or '': this attempt only
-- To give back, and to undo a claim that got no quorum: it touches no other claim. -> 1 it was there | 0 it was not
local holder = redis.pcall('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if type(holder) ~= 'string' then return 0 end
if string.sub(holder, 1, 1) == '!' then holder = string.sub(holder, 2) end -- Revoked.
if holder ~= ARGV[1] and '!' .. holder ~= ARGV[1] and (ARGV[2] == '' or string.sub(holder, 1, 32) ~= ARGV[2]) then return 0 end
return redis.call('DEL', KEYS[1])
