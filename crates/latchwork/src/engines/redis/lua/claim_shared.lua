-- A claim that may hold together with others of its kind: readers, or a number of permits.
-- Followed by enqueue. Inserted: {{gap}}, as in claim.
-- KEYS as in claim.
-- ARGV 1 claim id   2 the rest of the member: channel, kind, line feed, note   3 ttl ms
--      4 wait lease ms (0: try once)
-- ->   token | the kind of holders with another number of permits | as enqueue returns it
--      | error FENCE, as claim
local call, K, Q, W, F, me, ttl = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[3])
local tail, lease, gap, now = ARGV[2], tonumber(ARGV[4]), {{gap}}, call('TIME')
local member, ms = me .. tail, now[1] * 1000 + math.floor(now[2] / 1000)
--{{hand_over}}
local kind, holder, fence, held_as, is_free = kind_of(member)
local function read_lock()
  local both = call('MGET', K, F) -- A key of another type reads as nil.
  holder, fence = both[1], both[2] or ''
  held_as, is_free = shared_as(holder), not holder and call('EXISTS', K) == 0
end
read_lock()
if is_exhausted(fence) then
  leave_queue(member)
  return {err = 'FENCE ' .. F}
end

-- The number of permits that holders or waiters name. All of them name the same, so the first is enough.
local function permits_of_others()
  if held_as and held_as ~= 'r' then return held_as end
  for from = 0, {{most}}, 100 do
    local some = call('ZRANGE', Q, from, from + 99)
    for _, other in ipairs(some) do
      local named = kind_of(other)
      if named and named ~= 'r' and tonumber(call('ZSCORE', W, other) or 0) > ms then return named end
    end
    if #some < 100 then break end
  end
  return kind
end
if kind ~= 'r' then
  local named = permits_of_others()
  if named ~= kind then return named end
end

-- Without memory, a claim that holds or waits already goes on: a first write that is always allowed allows
-- the others.
local is_waiting = call('ZSCORE', Q, member)
if is_waiting or held_as == kind and call('ZSCORE', L, member) then call('PEXPIRE', F, '{{FENCE_TTL_MS}}') end
-- A client of another kind holds the key: the gap that was left for it is over.
if gap > 0 and holder and not held_as and string.sub(fence, {{FENCE_ID}}, {{FENCE_ID_END}}) ~= holder then
  call('ZREM', W, 'gap')
end

-- Serves the queue first, because no other request may have done it. This claim may be among those served.
if is_waiting or call('EXISTS', Q) == 1 then
  if held_as then
    admit_waiters(holder)
  elseif is_free and gap == 0 and first_alive() and not hand_over() then
    call('DEL', K) -- More waiters are dead than one call may visit.
  end
  read_lock()
end

-- Sent again, or admitted just now.
if held_as == kind and tonumber(call('ZSCORE', L, member) or 0) > ms then
  call('ZADD', L, ms + ttl, member)
  expire_with_last_lease(K, holder, T, L, ms)
  local token = call('ZSCORE', T, member)
  if not token then -- Evicted.
    token = write_grant(member)
    call('ZADD', T, token, member)
  end
  return string.format('%.0f', token)
end

local first = first_alive()
if first == member or not first and call('EXISTS', Q) == 0 then
  -- Only a claim that has waited leaves the gap to others.
  local gap_left = first and gap > 0 and tonumber(call('ZSCORE', W, 'gap') or 0) - ms or 0
  local begins = is_free and not (gap_left > 0 and gap_left <= gap)
  if begins then
    holder = kind .. ':' .. me
    call('SET', K, holder, 'PX', ttl) -- First, because it is refused without memory.
    call('DEL', T, L)
  end
  if begins or held_as == kind and room_for(kind) > 0 then
    local token = admit(member, ms + ttl)
    expire_with_last_lease(K, holder, T, L, ms)
    if first then
      leave_queue(member)
      admit_waiters(holder)
    end
    return token
  end
end
