-- Takes the key if it is free: the older two commands, which only a script makes one step.
local call, K, Q, W, F, me, ttl = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[3]
local taken = redis.pcall('SETNX', K, me)
local refused = taken ~= 0 and taken ~= 1 and taken
taken = taken == 1
if taken then call('PEXPIRE', K, ttl) end
