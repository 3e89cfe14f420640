-- Releases a lock, leaves the queue, and undoes a claim whose reply was lost: one script, which touches no
-- other claim.
-- KEYS as in claim. ARGV 1 claim id   2 the rest of the member. Inserted: {{gap}}, as in claim.
-- ->   1 the claim held or waited | 0 it did neither
local call, K, Q, W, F, me = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local holder = redis.pcall('GET', K) -- pcall: a key of another type must not stop the withdrawal.
local now, ms
if holder == me and {{gap}} == 0 then
  local first = call('ZPOPMIN', Q)
  local member = first[1]
  if not member then return call('DEL', K) end
  if string.byte(member, {{MEMBER_MODE}}) < {{MODE_WRITE}} then
    -- A reader or a permit: others may be admitted with it.
    call('ZADD', Q, first[2], member)
  else
    -- The common hand-over, without functions: they cost more than commands. The code below handles every
    -- other case.
    now = call('TIME')
    ms = now[1] * 1000 + math.floor(now[2] / 1000)
    local deadline = tonumber(call('ZSCORE', W, member) or 0)
    call('ZREM', W, member)
    if deadline > ms then
      local id = string.sub(member, 1, {{MEMBER_ID_END}})
      -- At most QUEUE_TTL_MS: the clock may have been set back.
      call('SET', K, id, 'PX', math.min(deadline - ms, {{QUEUE_TTL_MS}}))
      --{{write_token}}
      if not token then -- The next waiter claims, and receives the error.
        call('SET', F, last)
        local channel = string.sub(member, {{MEMBER_CHANNEL}}, {{MEMBER_CHANNEL_END}})
        call('PUBLISH', '{{CHANNEL_PREFIX}}' .. channel, id)
        return call('DEL', K)
      end
      -- Redis writes first to the client for which it had output last. A message to this client comes before
      -- the message to the next holder, so that the next holder need not wait until the reply to this client
      -- is written and, on a busy machine, read.
      local own = string.sub(ARGV[2], 1, {{TAIL_CHANNEL_END}})
      local next = string.sub(member, {{MEMBER_CHANNEL}}, {{MEMBER_CHANNEL_END}})
      if own ~= next then call('PUBLISH', '{{CHANNEL_PREFIX}}' .. own, '') end
      if call('PUBLISH', '{{CHANNEL_PREFIX}}' .. next, id .. token) > 0 then return 1 end
    end
  end
end

local gap, member = {{gap}}, me .. ARGV[2]
now = now or call('TIME')
ms = now[1] * 1000 + math.floor(now[2] / 1000)
--{{hand_over}}
if holder == me or holder == '!' .. me then
  -- Revoked, the claim may have been sent again and wait in the queue: it must not be handed its own release.
  if call('ZREM', Q, member) == 1 then call('ZREM', W, member) end
  release_key()
  return 1
end

if call('ZREM', Q, member) == 0 then return 0 end
call('ZREM', W, member)
if not holder then
  wake_first() -- The claim that leaves may be the one that was woken.
else
  admit_waiters(holder) -- The claim that leaves may have kept others back.
end
return 1
