-- KEYS four for each claim, as in claim. ARGV three for each: claim id, the rest of its member, wait lease ms.
-- Says for many waiting claims at once that they are still there.
-- ->   for each: as claim answers when the lock is held | 0 there is more to do: claim
local call, answers = redis.call, {}
local now = call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
for i = 1, #KEYS / 4 do
  local K, Q, W, F = KEYS[i * 4 - 3], KEYS[i * 4 - 2], KEYS[i * 4 - 1], KEYS[i * 4]
  local member, lease = ARGV[i * 3 - 2] .. ARGV[i * 3 - 1], tonumber(ARGV[i * 3])
  local both, place = call('MGET', K, F), call('ZRANK', Q, member)
  local holder, fence = both[1], both[2] or ''
  -- Those with an owner take over, and those who want a permit look for one; a reader looks whether the writer ahead is gone,
  -- and the first in line who they are that hold together.
  local kind = string.byte(holder or '') or 0
  local looks = string.byte(member, 50) ~= 10 or kind > 102 and (place == 0 or kind == 114 and string.byte(member, 49) == 114)
  if place and holder and holder ~= '' and holder ~= ARGV[i * 3 - 2] and not looks then
    call('PEXPIRE', Q, '60000') -- First, because it is allowed without memory, and allows what follows.
    call('PEXPIRE', W, '60000')
    call('ZADD', W, ms + lease, member)
    answers[i] = {place, call('PTTL', K), fence, holder}
  else
    answers[i] = 0
  end
end
return answers
