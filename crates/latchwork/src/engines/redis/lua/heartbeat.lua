-- The heartbeats of many waiting claims in one request.
-- KEYS four for each claim, as in claim.
-- ARGV three for each claim: claim id, the rest of its member, wait lease ms
-- ->   for each claim: as enqueue returns it when the lock is held | 0 it must call claim
local call, answers = redis.call, {}
local now = call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
for i = 1, #KEYS / 4 do
  local K, Q, W, F = KEYS[i * 4 - 3], KEYS[i * 4 - 2], KEYS[i * 4 - 1], KEYS[i * 4]
  local member, lease = ARGV[i * 3 - 2] .. ARGV[i * 3 - 1], tonumber(ARGV[i * 3])
  local both, place = call('MGET', K, F), call('ZRANK', Q, member)
  local holder, fence = both[1], both[2] or ''
  -- These claims call claim: one with an owner, which may take over; one for a permit, which may find a free
  -- permit; a reader beside readers, because the writer ahead of it may be gone; and the first waiter behind
  -- claims that hold together, because only enqueue returns these.
  local kind = string.byte(holder or '') or 0
  local looks = string.byte(member, {{MEMBER_OWNER}}) ~= {{LF}} or kind > {{HEX_F}}
    and (place == 0 or kind == {{MODE_READ}} and string.byte(member, {{MEMBER_MODE}}) == {{MODE_READ}})
  if place and holder and holder ~= '' and holder ~= ARGV[i * 3 - 2] and not looks then
    -- First the expiry: allowed without memory, it allows the writes that follow.
    call('PEXPIRE', Q, '{{QUEUE_TTL_MS}}')
    call('PEXPIRE', W, '{{QUEUE_TTL_MS}}')
    call('ZADD', W, ms + lease, member)
    answers[i] = {place, call('PTTL', K), fence, holder}
  else
    answers[i] = 0
  end
end
return answers
