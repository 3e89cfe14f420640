-- Inserted into claims and releases. Uses their call, K, Q, W, F, me, gap, now and ms.
--{{shared}}
local T, L = shared_keys(Q)

-- Writes a grant to `member` to the fence. Returns its token.
local function write_grant(member)
  --{{write_token}}
  return token
end

-- Whether the value of the fence leaves no room for tokens. Checked before a grant.
local function is_exhausted(last)
  if last < '9' and (string.byte(last, {{FENCE_MODE}}) or 0) >= {{MODE_PERMIT}} then return false end
  local token = ''
  --{{next_token}}
  return not token
end

local function leave_queue(member)
  call('ZREM', Q, member)
  call('ZREM', W, member)
end

-- The first waiter that is alive, and the end of its wait lease. Dead waiters before it are removed, a
-- bounded number per call.
local function first_alive()
  for _ = 1, 256 do
    local member = call('ZRANGE', Q, 0, 0)[1]
    if not member then return nil end
    local deadline = tonumber(call('ZSCORE', W, member) or 0)
    -- At most QUEUE_TTL_MS: the clock may have been set back.
    if deadline > ms then return member, math.min(deadline, ms + {{QUEUE_TTL_MS}}) end
    leave_queue(member)
  end
end

-- Notifies the client of a waiter. 0: no client listens, because its process is gone. The claim that sent
-- this script gets a reply anyway.
local function notify(member, token)
  local id = string.sub(member, 1, {{MEMBER_ID_END}})
  if id == me then return 1 end
  local channel = string.sub(member, {{MEMBER_CHANNEL}}, {{MEMBER_CHANNEL_END}})
  return call('PUBLISH', '{{CHANNEL_PREFIX}}' .. channel, id .. token)
end

-- Notifies the first waiter that the key is free, so that it races for it.
local function wake_first()
  for _ = 1, 256 do
    local first = first_alive()
    if not first or notify(first, '') > 0 then return end
    leave_queue(first)
  end
end

-- Lets a claim hold until lease_end, together with others. Returns its token.
local function admit(member, lease_end)
  call('ZADD', L, lease_end, member)
  local token = write_grant(member)
  call('ZADD', T, token, member)
  return token
end

-- How many more claims of a kind may hold together with the holders. A holder whose lease has ended does not
-- count.
local function room_for(kind)
  local ended = call('ZRANGEBYSCORE', L, '-inf', ms, 'LIMIT', 0, 256)
  if #ended > 0 then
    call('ZREM', L, unpack(ended))
    call('ZREM', T, unpack(ended))
  end
  local last = call('ZRANGE', L, -1, -1)[1]
  if not last then return 0 end -- The key ends this moment, or is another client's after all.
  if kind == 'r' then return 1000 end
  return string.sub(kind, 2) - call('ZRANK', L, last) - 1
end

-- Admits the claims at the head of the queue that may hold together with the holders for which `value` stands
-- in the key: at most a thousand per call, not all of which may listen. The rest calls claim.
local function admit_waiters(value)
  local kind, admitted = shared_as(value), false
  if not kind or is_exhausted(call('MGET', F)[1] or '') then return end
  local left, tries = room_for(kind), 1000
  while left > 0 and tries > 0 do
    tries = tries - 1
    local member, lease_end = first_alive()
    if not member or kind_of(member) ~= kind then break end
    leave_queue(member)
    if notify(member, admit(member, lease_end)) > 0 then
      left, admitted = left - 1, true
    else
      call('ZREM', L, member)
      call('ZREM', T, member)
    end
  end
  if admitted then expire_with_last_lease(K, value, T, L, ms) end
end

-- Gives the key, which is free or held by the caller, to the first waiter that is alive and listens, for what
-- is left of its own wait lease: the waiter counts from its last answered claim, so two configurations cannot
-- disagree. Waiters behind it that may hold together with it are admitted as well.
local function hand_over()
  -- The waiter claims again, and receives the error.
  if is_exhausted(call('MGET', F)[1] or '') then return wake_first() end
  for _ = 1, 256 do
    local member, lease_end = first_alive()
    if not member then return nil end
    leave_queue(member)
    local kind, value, token = kind_of(member), string.sub(member, 1, {{MEMBER_ID_END}}), nil
    if kind then
      call('DEL', T, L) -- Earlier holders are gone.
      value, token = kind .. ':' .. value, admit(member, lease_end)
      expire_with_last_lease(K, value, T, L, ms)
    else
      call('SET', K, value, 'PX', lease_end - ms)
      token = write_grant(member)
    end
    if notify(member, token) > 0 then
      admit_waiters(value)
      return member, token
    end
    if kind then call('DEL', T, L) end
  end
end

-- Releases the key, which the caller holds.
local function release_key()
  if gap > 0 then
    call('DEL', K)
    call('ZADD', W, ms + gap, 'gap')
    call('PEXPIRE', W, gap + {{QUEUE_TTL_MS}})
    wake_first()
  elseif not hand_over() then
    call('DEL', K)
  end
end
