-- KEYS as in claim. ARGV 1 claim id   2 the rest of the member. Put in: {{gap}}, as there.
-- To give back, to leave the queue, and to undo a claim whose reply was lost: one script, and it touches no other claim.
-- ->   1 something of this claim was there | 0 nothing was
local call, K, Q, W, F, me = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local holder = redis.pcall('GET', K) -- pcall: a key of another type must not stop the withdrawal.
local now, ms
if holder == me and {{gap}} == 0 then
  local first = call('ZPOPMIN', Q)
  local member = first[1]
  if not member then return call('DEL', K) end
  if string.byte(member, 49) < 119 then -- Neither x nor w: others may come in with it.
    call('ZADD', Q, first[2], member)
  else
    -- The common hand-over, without functions: they cost more than commands. What it may not be is left to the others.
    now = call('TIME')
    ms = now[1] * 1000 + math.floor(now[2] / 1000)
    local deadline = tonumber(call('ZSCORE', W, member) or 0)
    call('ZREM', W, member)
    if deadline > ms then
      local id, token = string.sub(member, 1, 32), now[1] .. string.sub(1000000 + now[2], 2)
      call('SET', K, id, 'PX', math.min(deadline - ms, 60000)) -- The clock may have been set back.
      local last = call('SET', F, token .. member, 'PX', '86400000', 'GET')
      if #token < 16 or last and (last >= token or (string.byte(last, 65) or 0) < 112) then
        --{{next_token}}
        if not token then -- The next waiter asks, and receives the error.
          call('SET', F, last)
          call('PUBLISH', 'latchwork:' .. string.sub(member, 33, 48), id)
          return call('DEL', K)
        end
        call('SET', F, token .. member, 'PX', '86400000')
      end
      -- Redis writes first to whom it had something for last. A word to ourselves comes before the word to the next holder, so
      -- that this does not wait until our answer is written and, on a busy machine, read.
      local own, next = string.sub(ARGV[2], 1, 16), string.sub(member, 33, 48)
      if own ~= next then call('PUBLISH', 'latchwork:' .. own, '') end
      if call('PUBLISH', 'latchwork:' .. next, id .. token) > 0 then return 1 end
    end
  end
end

local gap, member = {{gap}}, me .. ARGV[2]
now = now or call('TIME')
ms = now[1] * 1000 + math.floor(now[2] / 1000)
--{{hand_over}}
if holder == me or holder == '!' .. me then
  -- Revoked, it may have asked again and stand in line: it must not be handed what it gives back.
  if call('ZREM', Q, member) == 1 then call('ZREM', W, member) end
  let_go()
  return 1
end

if call('ZREM', Q, member) == 0 then return 0 end
call('ZREM', W, member)
if not holder then
  wake() -- It may have been the one that was woken.
else
  let_in(holder) -- It may have kept others back.
end
return 1
