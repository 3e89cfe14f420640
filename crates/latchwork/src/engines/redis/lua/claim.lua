-- Follows take_set or take_setnx, and is followed by enqueue.
-- KEYS 1 holder: the claim id, as a plain string that every other client's SET NX respects
--      2 queue: zset of members by arrival   3 waiters: zset of members by the end of their wait lease
--      4 fence: the newest token, 16 digits, then the member it was granted to
-- ARGV 1 claim id   2 the rest of the member: channel, mode, owner, line feed, note   3 ttl ms
--      4 wait lease ms (0: try once)
-- Inserted: {{most}}, the maximum number of waiters; {{gap}}, for how many ms the key stays free after a
-- release, or until a client of another kind had it, for the clients that poll (0: the key is handed over).
-- ->   token | as enqueue returns it | error FENCE and the key: its value leaves no room for tokens
-- Functions cost more than commands here, so the common paths define none. Only the server's clock counts.
local tail = ARGV[2]
if refused then
  -- Out of memory. A claim that holds or waits already needs none, and must keep its place until there is
  -- memory again: a first write that is always allowed allows the others.
  if redis.pcall('GET', K) == me then
    call('PEXPIRE', K, ttl)
  elseif call('ZSCORE', Q, me .. tail) then
    call('PEXPIRE', Q, '{{QUEUE_TTL_MS}}')
  else
    return refused
  end
  taken = nil
end
local now = call('TIME')
if taken and call('EXISTS', Q) == 0 then
  local member = me .. tail
  --{{write_token}}
  if not token then
    call('SET', F, last)
    call('DEL', K)
    return {err = 'FENCE ' .. F}
  end
  return token
end
if taken then call('DEL', K) end -- Others wait, and are served in the order of their arrival.

local member, lease, gap = me .. tail, tonumber(ARGV[4]), {{gap}}
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local both = call('MGET', K, F) -- A key of another type reads as nil.
local holder, fence = both[1], both[2] or ''
local has_owner = string.byte(tail, {{TAIL_OWNER}}) ~= {{LF}}

if fence >= '9' or (string.byte(fence, {{FENCE_MODE}}) or 0) < {{MODE_PERMIT}} then
  local last, token = fence, ''
  --{{next_token}}
  if not token then
    call('ZREM', Q, member)
    call('ZREM', W, member)
    return {err = 'FENCE ' .. F}
  end
end

-- A client of another kind holds the key: the gap that was left for it is over.
if gap > 0 and holder and string.sub(fence, {{FENCE_ID}}, {{FENCE_ID_END}}) ~= holder then
  call('ZREM', W, 'gap')
end

if not holder or holder == me or has_owner then
  --{{hand_over}}
  local function grant()
    if call('ZREM', Q, member) == 1 then call('ZREM', W, member) end
    call('SET', K, me, 'PX', ttl)
    return write_grant(member)
  end

  -- Sent again, after a lost reply: the same answer.
  if holder == me then
    call('PEXPIRE', K, ttl)
    if string.sub(fence, {{FENCE_ID}}, {{FENCE_ID_END}}) == me then
      return string.sub(fence, 1, {{TOKEN_LEN}})
    end
    return write_grant(member)
  end

  -- An owner takes over from itself, past the queue.
  if holder and string.sub(fence, {{FENCE_ID}}, {{FENCE_ID_END}}) == holder then
    local owner = string.sub(tail, {{TAIL_OWNER}}, string.find(tail, '\n', {{TAIL_OWNER}}, true))
    if string.sub(fence, {{FENCE_OWNER}}, {{FENCE_OWNER}} - 1 + #owner) == owner then return grant() end
  end

  if not holder and call('EXISTS', K) == 0 then
    local first = first_alive()
    local is_mine = first == member or not first and call('EXISTS', Q) == 0
    -- Not longer than a gap lasts: the clock may have been set back since.
    local gap_left = gap > 0 and tonumber(call('ZSCORE', W, 'gap') or 0) - ms or 0
    local is_gap = gap_left > 0 and gap_left <= gap
    if is_mine and not is_gap then return grant() end
    -- Another claim is first. It gets the key now, because no other request may come that could hand it over.
    if not is_mine and gap == 0 then
      local given, token = hand_over()
      if not given and call('EXISTS', Q) == 0 then return grant() end
      if given == member then
        -- All claims before it are gone. Queued again, it would be handed its own release.
        call('PEXPIRE', K, ttl)
        return token
      end
      if given then
        both = call('MGET', K, F)
        holder, fence = both[1], both[2]
      else
        call('DEL', K) -- More waiters are dead than one call may visit.
      end
    end
  end
end

