-- Takes the key if it is free: one command.
local call, K, Q, W, F, me, ttl = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[3]
local taken = redis.pcall('SET', K, me, 'NX', 'PX', ttl)
local refused = taken and taken.err and taken
