-- KEYS 1 holder: the claim id, as a plain string that every other client's SET NX respects
--      2 queue: zset of members by arrival   3 zset of members by the end of their wait lease
--      4 fence: the newest token, 16 digits, then the member it was granted to
-- ARGV 1 claim id   2 the rest of the member: channel, owner, line feed, note   3 ttl ms   4 wait lease ms (0: only try)
--      5 most waiters   6 gap ms: the key stays free so long after a release, or until a client of another kind has had
--      it, for clients that poll (0: handed over)
-- ->   token | {place in the queue or -1, ms until the key is free, fence, holder}
local member = me .. tail
local ttl, lease, gap = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6])
local both = call('MGET', K, F) -- A key of another type reads as nil here; SET NX refuses it all the same.
local holder, fence = both[1], both[2] or ''

-- Asked again, after a lost reply: the same answer.
if holder == me then
  call('PEXPIRE', K, ttl)
  if string.sub(fence, 17, 48) == me then return string.sub(fence, 1, 16) end
  return stamp(member)
end

-- A client of another kind has its turn: the gap that was left for it is over.
if gap > 0 and holder and string.sub(fence, 17, 48) ~= holder then call('ZREM', W, 'gap') end

local function leave_queue()
  if call('ZREM', Q, member) == 1 then call('ZREM', W, member) end
end

-- The same owner takes over from itself, past the queue.
local owner = string.sub(tail, 17, string.find(tail, '\n', 1, true) - 1)
if holder and owner ~= '' and string.sub(fence, 17, 48) == holder then
  local ends = string.find(fence, '\n', 65, true)
  if ends and string.sub(fence, 65, ends - 1) == owner then
    leave_queue()
    call('SET', K, me, 'PX', ttl)
    return stamp(member)
  end
end

local first
if not holder then
  first = first_alive()
  local pause = gap > 0 and tonumber(call('ZSCORE', W, 'gap') or 0) - ms or 0
  if (not first or first == member) and pause <= 0 and take(me, ttl) then
    if first then leave_queue() end
    return stamp(member)
  end
end

if lease > 0 then
  if call('ZADD', Q, 'NX', us, member) == 1 then
    local dead = call('ZRANGEBYSCORE', W, '-inf', ms, 'LIMIT', 0, 256)
    if #dead > 0 then
      call('ZREM', Q, unpack(dead))
      call('ZREM', W, unpack(dead))
    end
    if call('ZCARD', Q) > tonumber(ARGV[5]) then
      call('ZREM', Q, member)
      return 'full'
    end
  end
  call('ZADD', W, ms + lease, member)
  call('PEXPIRE', Q, lease * 4)
  call('PEXPIRE', W, lease * 4)
end

-- Free, but another is first: it gets the key now, since nobody else may come by to give it. If all who wait are gone,
-- that is this claim.
if not holder and first and first ~= member and gap == 0 and call('EXISTS', K) == 0 then
  local given, token = hand_over()
  if given == member or call('EXISTS', Q) == 0 and not given then
    call('SET', K, me, 'PX', ttl)
    return token or stamp(member)
  elseif given then
    holder, fence = string.sub(given, 1, 32), token .. given
  else
    call('DEL', K) -- There are more of the dead than one call may look at.
  end
end

local free_in = call('PTTL', K)
if (not holder or holder == '') and free_in ~= -2 then
  holder = '?' -- Something that is no string, or an empty one, and no lock of ours.
elseif not holder then
  free_in = tonumber(call('ZSCORE', W, 'gap') or ms) - ms
end
return {call('ZRANK', Q, member) or -1, free_in, fence, holder or ''}
