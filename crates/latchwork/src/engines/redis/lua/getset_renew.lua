-- KEYS the keys. ARGV for each: the new value, how many values this claim may have set, and these values
-- ->   for each: 1 | 0 another claim has the key by now
local answers, at = {}, 1
for i = 1, #KEYS do
  local value, last = redis.pcall('GET', KEYS[i]), at + 1 + ARGV[at + 1]
  answers[i] = 0
  for j = at + 2, last do
    if value == ARGV[j] then answers[i] = 1 end
  end
  if answers[i] == 1 then redis.call('GETSET', KEYS[i], ARGV[at]) end
  at = last + 1
end
return answers
