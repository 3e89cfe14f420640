-- KEYS 1..n holders, n+1..2n fences. ARGV 1..n claim ids, n+1..2n ttl ms.
-- Extends only what is still ours, and never brings a key back. The fence must not expire during a long hold.
-- A word that a revocation left for it stands among the waiters, in the key that ends with w instead of f.
-- ->   for each: 1 extended | 2 revoked | the fence, or 0: no longer ours
local call, answers, n = redis.call, {}, #KEYS / 2
for i = 1, n do
  local holder = redis.pcall('GET', KEYS[i])
  if holder == ARGV[i] then
    call('PEXPIRE', KEYS[i], ARGV[n + i])
    call('PEXPIRE', KEYS[n + i], '86400000')
    answers[i] = 1
  elseif holder == '!' .. ARGV[i]
      or type(redis.pcall('ZSCORE', string.sub(KEYS[n + i], 1, -2) .. 'w', '!' .. string.sub(ARGV[i], 1, 32))) == 'string' then
    answers[i] = 2
  else
    answers[i] = call('MGET', KEYS[n + i])[1] or 0
  end
end
return answers
