-- KEYS four for each claim of claim_shared, as in claim.
-- ARGV three for each claim: claim id, the rest of its member, ttl ms
-- Extends only claims that still hold, and never restores a key or a lease.
-- ->   for each claim: 1 extended | 2 revoked | 0 it no longer holds
local call, answers = redis.call, {}
local now = call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
--{{shared}}
for i = 1, #KEYS / 4 do
  local K, Q, W, F = KEYS[i * 4 - 3], KEYS[i * 4 - 2], KEYS[i * 4 - 1], KEYS[i * 4]
  local member, ttl = ARGV[i * 3 - 2] .. ARGV[i * 3 - 1], tonumber(ARGV[i * 3])
  local T, L = shared_keys(Q)
  local holder = redis.pcall('GET', K)
  local is_ours = shared_as(holder) == kind_of(member)
  answers[i] = 0
  if is_ours and tonumber(call('ZSCORE', L, member) or 0) > ms then
    -- First the expiry: allowed without memory, it allows the writes that follow.
    call('PEXPIRE', F, '{{FENCE_TTL_MS}}')
    call('ZADD', L, ms + ttl, member)
    expire_with_last_lease(K, holder, T, L, ms)
    answers[i] = 1
  elseif is_ours and call('ZSCORE', L, '!' .. member) or call('ZSCORE', W, '!' .. ARGV[i * 3 - 2]) then
    answers[i] = 2
  end
end
return answers
