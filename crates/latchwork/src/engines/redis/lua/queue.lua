-- What claim and release share. Only the server's clock counts: clients' clocks differ.
local K, Q, W, F = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local me, tail = ARGV[1], ARGV[2]
local now = call('TIME')
local us = now[1] * 1000000 + now[2]
local ms = math.floor(us / 1000)

-- Writes down a grant to `member`, and returns its token: max(last + 1, server time in us), as 16 digits. Above the last
-- one also when the clock was set back, and above it by time when the last one was lost with the data.
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
    if not member then return nil, 0 end
    local deadline = tonumber(call('ZSCORE', W, member) or 0)
    if deadline > ms then return member, deadline end
    call('ZREM', Q, member)
    call('ZREM', W, member)
  end
  return nil, 0
end

-- Tells the client of a waiter; 0 if nobody listens: its process is gone.
local function tell(member, token)
  return call('PUBLISH', 'latchwork:' .. string.sub(member, 33, 48), string.sub(member, 1, 32) .. token)
end

-- Gives the key, which is free or ours to give, to the first waiter that is alive and listens, for what is left of its
-- own place in the queue: the waiter counts from its last answered claim, so two configurations cannot disagree.
local function hand_over()
  for _ = 1, 256 do
    local member, deadline = first_alive()
    if not member then return nil end
    call('ZREM', Q, member)
    call('ZREM', W, member)
    call('SET', K, string.sub(member, 1, 32), 'PX', deadline - ms)
    local token = stamp(member)
    if tell(member, token) > 0 then return member, token end
  end
  return nil
end
