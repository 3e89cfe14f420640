-- KEYS 1 holder: the claim id, as a plain string that every other client's SET NX respects
--      2 queue: zset of members by arrival   3 zset of members by the end of their wait lease
--      4 fence: the newest token, 16 digits, then the member it was granted to
-- ARGV 1 claim id   2 the rest of the member: channel, mode, owner, line feed, note   3 ttl ms   4 wait lease ms (0: only try)
-- Put in: {{most}}, the most that may wait; {{gap}}, for how many ms the key stays free after a release, or until a client of
-- another kind has had it, for clients that poll (0: handed over).
-- ->   token | as queue says | error FENCE and the key: its value leaves no room for tokens
-- Functions cost more than commands here, so the common ways through define none. Only the server's clock counts.
local tail = ARGV[2]
if refused then
  -- No memory. Who holds or waits already needs none, and must keep its place for as long as that lasts: a first write
  -- that is always allowed allows the others.
  if redis.pcall('GET', K) == me then
    call('PEXPIRE', K, ttl)
  elseif call('ZSCORE', Q, me .. tail) then
    call('PEXPIRE', Q, '60000')
  else
    return refused
  end
  taken = nil
end
local now = call('TIME')
if taken and call('EXISTS', Q) == 0 then
  -- The token: max(last + 1, server time in us). Above the last one also when the clock was set back, and above it by
  -- time when the last one was lost with the data. Digits, because Lua's numbers print slowly and lose some.
  local token = now[1] .. string.sub(1000000 + now[2], 2)
  local last = call('SET', F, token .. me .. tail, 'PX', '86400000', 'GET')
  if #token < 16 or last and (last >= token or (string.byte(last, 65) or 0) < 112) then
    --{{next_token}}
    if not token then
      call('SET', F, last)
      call('DEL', K)
      return {err = 'FENCE ' .. F}
    end
    call('SET', F, token .. me .. tail, 'PX', '86400000')
  end
  return token
end
if taken then call('DEL', K) end -- Others wait, and are served in the order in which they came.

local member, lease, gap = me .. tail, tonumber(ARGV[4]), {{gap}}
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local both = call('MGET', K, F) -- A key of another type reads as nil.
local holder, fence = both[1], both[2] or ''
local has_owner = string.byte(tail, 18) ~= 10

if fence >= '9' or (string.byte(fence, 65) or 0) < 112 then
  local last, token = fence, ''
  --{{next_token}}
  if not token then
    call('ZREM', Q, member)
    call('ZREM', W, member)
    return {err = 'FENCE ' .. F}
  end
end

-- A client of another kind has its turn: the gap that was left for it is over.
if gap > 0 and holder and string.sub(fence, 17, 48) ~= holder then call('ZREM', W, 'gap') end

if not holder or holder == me or has_owner then
  --{{hand_over}}
  local function grant()
    if call('ZREM', Q, member) == 1 then call('ZREM', W, member) end
    call('SET', K, me, 'PX', ttl)
    return stamp(member)
  end

  -- Asked again, after a lost reply: the same answer.
  if holder == me then
    call('PEXPIRE', K, ttl)
    if string.sub(fence, 17, 48) == me then return string.sub(fence, 1, 16) end
    return stamp(member)
  end

  -- The same owner takes over from itself, past the queue.
  if holder and string.sub(fence, 17, 48) == holder then
    local owner = string.sub(tail, 18, string.find(tail, '\n', 18, true))
    if string.sub(fence, 66, 65 + #owner) == owner then return grant() end
  end

  if not holder and call('EXISTS', K) == 0 then
    local first = first_alive()
    local is_mine = first == member or not first and call('EXISTS', Q) == 0
    -- Not longer than a gap lasts: the clock may have been set back since.
    local gap_left = gap > 0 and tonumber(call('ZSCORE', W, 'gap') or 0) - ms or 0
    local is_gap = gap_left > 0 and gap_left <= gap
    if is_mine and not is_gap then return grant() end
    -- Another is first: it gets the key now, since nobody else may come by to give it.
    if not is_mine and gap == 0 then
      local given, token = hand_over()
      if not given and call('EXISTS', Q) == 0 then return grant() end
      if given == member then -- All before it are gone. Queued again, it would be handed its own release.
        call('PEXPIRE', K, ttl)
        return token
      end
      if given then
        both = call('MGET', K, F)
        holder, fence = both[1], both[2]
      else
        call('DEL', K) -- There are more of the dead than one call may look at.
      end
    end
  end
end

