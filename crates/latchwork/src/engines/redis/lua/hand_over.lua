-- Put into claim and release where they say so. Uses their call, K, Q, W, F, now and ms.

-- Writes down a grant to `member`, and returns its token.
local function stamp(member)
  local token = now[1] .. string.sub(1000000 + now[2], 2)
  local last = call('SET', F, token .. member, 'PX', '86400000', 'GET')
  if last and last >= token then
    token = string.format('%.0f', string.sub(last, 1, 16) + 1)
    call('SET', F, token .. member, 'PX', '86400000')
  end
  return token
end

-- The first waiter that is alive, and until when; the dead before it are dropped, a bounded number per call.
local function first_alive()
  for _ = 1, 256 do
    local member = call('ZRANGE', Q, 0, 0)[1]
    if not member then return nil end
    local deadline = tonumber(call('ZSCORE', W, member) or 0)
    if deadline > ms then return member, deadline end
    call('ZREM', Q, member)
    call('ZREM', W, member)
  end
end

-- Tells the client of a waiter; 0 if nobody listens: its process is gone.
local function tell(member, token)
  return call('PUBLISH', 'latchwork:' .. string.sub(member, 33, 48), string.sub(member, 1, 32) .. token)
end

-- Gives the key, which is free or ours to give, to the first waiter that is alive and listens, for what is left of its
-- own wait lease: the waiter counts from its last answered claim, so two configurations cannot disagree.
local function hand_over()
  for _ = 1, 256 do
    local member, deadline = first_alive()
    if not member then return nil end
    call('ZREM', Q, member)
    call('ZREM', W, member)
    call('SET', K, string.sub(member, 1, 32), 'PX', math.min(deadline - ms, 60000))
    local token = stamp(member)
    if tell(member, token) > 0 then return member, token end
  end
end
