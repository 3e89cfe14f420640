-- KEYS four for each claim of share, as there. ARGV three for each: claim id, the rest of its member, ttl ms.
-- Extends only what is still ours, and never brings a key or a lease back.
-- ->   for each: 1 extended | 2 revoked | 0 no longer ours
local call, answers = redis.call, {}
local now = call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
--{{sharing}}
for i = 1, #KEYS / 4 do
  local K, Q, W, F = KEYS[i * 4 - 3], KEYS[i * 4 - 2], KEYS[i * 4 - 1], KEYS[i * 4]
  local member, ttl = ARGV[i * 3 - 2] .. ARGV[i * 3 - 1], tonumber(ARGV[i * 3])
  local T, L = together(Q)
  local holder = redis.pcall('GET', K)
  local is_ours = shared_as(holder) == kind_of(member)
  answers[i] = 0
  if is_ours and tonumber(call('ZSCORE', L, member) or 0) > ms then
    call('PEXPIRE', F, '86400000') -- First, because it is allowed without memory, and allows what follows.
    call('ZADD', L, ms + ttl, member)
    last_as_long(K, holder, T, L, ms)
    answers[i] = 1
  elseif is_ours and call('ZSCORE', L, '!' .. member) or call('ZSCORE', W, '!' .. ARGV[i * 3 - 2]) then
    answers[i] = 2
  end
end
return answers
