-- KEYS 1..n keys. ARGV 1..n the values these claims set, n+1..2n the new ones. -> for each: 1 | 0 it is another's by now
local answers, n = {}, #KEYS
for i = 1, n do
  answers[i] = 0
  if redis.pcall('GET', KEYS[i]) == ARGV[i] then
    redis.call('GETSET', KEYS[i], ARGV[n + i])
    answers[i] = 1
  end
end
return answers
