-- Put into claims and releases where they say so. Uses their call, K, Q, W, F, me, gap, now and ms.
--{{sharing}}
local T, L = together(Q)

-- Writes down a grant to `member`, and returns its token.
local function stamp(member)
  local token = now[1] .. string.sub(1000000 + now[2], 2)
  local last = call('SET', F, token .. member, 'PX', '86400000', 'GET')
  if #token < 16 or last and (last >= token or (string.byte(last, 65) or 0) < 112) then
    --{{next_token}}
    call('SET', F, token .. member, 'PX', '86400000')
  end
  return token
end

-- Whether the value of the fence leaves no room for tokens. Checked before anything is granted.
local function is_beyond(last)
  if last < '9' and (string.byte(last, 65) or 0) > 111 then return false end
  local token = ''
  --{{next_token}}
  return not token
end

local function leave_queue(member)
  call('ZREM', Q, member)
  call('ZREM', W, member)
end

-- The first waiter that is alive, and until when; the dead before it are dropped, a bounded number per call.
local function first_alive()
  for _ = 1, 256 do
    local member = call('ZRANGE', Q, 0, 0)[1]
    if not member then return nil end
    local deadline = tonumber(call('ZSCORE', W, member) or 0)
    if deadline > ms then return member, math.min(deadline, ms + 60000) end -- The clock may have been set back.
    leave_queue(member)
  end
end

-- Tells the client of a waiter; 0 if nobody listens: its process is gone. Who asks gets an answer anyway.
local function tell(member, token)
  local id = string.sub(member, 1, 32)
  if id == me then return 1 end
  return call('PUBLISH', 'latchwork:' .. string.sub(member, 33, 48), id .. token)
end

-- Tells the first waiter that the key is free, so that it races for it.
local function wake()
  for _ = 1, 256 do
    local first = first_alive()
    if not first or tell(first, '') > 0 then return end
    leave_queue(first)
  end
end

-- Lets a claim hold until then, together with others.
local function admit(member, lease_end)
  call('ZADD', L, lease_end, member)
  local token = stamp(member)
  call('ZADD', T, token, member)
  return token
end

-- How many more of a kind may hold together with those who do. Whose lease is over does not.
local function room(kind)
  local over = call('ZRANGEBYSCORE', L, '-inf', ms, 'LIMIT', 0, 256)
  if #over > 0 then
    call('ZREM', L, unpack(over))
    call('ZREM', T, unpack(over))
  end
  local last = call('ZRANGE', L, -1, -1)[1]
  if not last then return 0 end -- The key ends this moment, or is another client's after all.
  if kind == 'r' then return 1000 end
  return string.sub(kind, 2) - call('ZRANK', L, last) - 1
end

-- Lets in those at the head of the queue who may hold together with those for whom `value` stands in the key: a thousand
-- per call, of whom not all may listen. The others ask.
local function let_in(value)
  local kind, came = shared_as(value), false
  if not kind or is_beyond(call('MGET', F)[1] or '') then return end
  local left, tries = room(kind), 1000
  while left > 0 and tries > 0 do
    tries = tries - 1
    local member, lease_end = first_alive()
    if not member or kind_of(member) ~= kind then break end
    leave_queue(member)
    if tell(member, admit(member, lease_end)) > 0 then
      left, came = left - 1, true
    else
      call('ZREM', L, member)
      call('ZREM', T, member)
    end
  end
  if came then last_as_long(K, value, T, L, ms) end
end

-- Gives the key, which is free or ours to give, to the first waiter that is alive and listens, for what is left of its
-- own wait lease: the waiter counts from its last answered claim, so two configurations cannot disagree. Who may hold
-- together with it and comes next is let in as well.
local function hand_over()
  if is_beyond(call('MGET', F)[1] or '') then return wake() end -- The waiter asks again, and receives the error.
  for _ = 1, 256 do
    local member, lease_end = first_alive()
    if not member then return nil end
    leave_queue(member)
    local kind, value, token = kind_of(member), string.sub(member, 1, 32), nil
    if kind then
      call('DEL', T, L) -- Whoever held together before is gone.
      value, token = kind .. ':' .. value, admit(member, lease_end)
      last_as_long(K, value, T, L, ms)
    else
      call('SET', K, value, 'PX', lease_end - ms)
      token = stamp(member)
    end
    if tell(member, token) > 0 then
      let_in(value)
      return member, token
    end
    if kind then call('DEL', T, L) end
  end
end

-- Gives the key back, which is ours.
local function let_go()
  if gap > 0 then
    call('DEL', K)
    call('ZADD', W, ms + gap, 'gap')
    call('PEXPIRE', W, gap + 60000)
    wake()
  elseif not hand_over() then
    call('DEL', K)
  end
end
