-- KEYS 1..n holders, n+1..2n fences. ARGV 1..n claim ids, n+1..2n ttl ms.
-- Extends only claims that still hold, and never restores a key. The fence must not expire during a long
-- hold. The mark that a revocation left for the claim is in the zset of waiters, the key that ends with w
-- instead of f.
-- ->   for each: 1 extended | 2 revoked | the fence, or 0: it no longer holds
local call, answers, n = redis.call, {}, #KEYS / 2
for i = 1, n do
  local holder = redis.pcall('GET', KEYS[i])
  if holder == ARGV[i] then
    call('PEXPIRE', KEYS[i], ARGV[n + i])
    call('PEXPIRE', KEYS[n + i], '{{FENCE_TTL_MS}}')
    answers[i] = 1
  elseif holder == '!' .. ARGV[i]
      or type(redis.pcall('ZSCORE', string.sub(KEYS[n + i], 1, -2) .. 'w',
        '!' .. string.sub(ARGV[i], 1, {{MEMBER_ID_END}}))) == 'string' then
    answers[i] = 2
  else
    answers[i] = call('MGET', KEYS[n + i])[1] or 0
  end
end
return answers
