-- KEYS 1 the key. ARGV the values that this claim may have set. -> 1 deleted | 0 another claim has the key by
--      now
local value = redis.pcall('GET', KEYS[1])
for i = 1, #ARGV do
  if value == ARGV[i] then return redis.call('DEL', KEYS[1]) end
end
return 0
