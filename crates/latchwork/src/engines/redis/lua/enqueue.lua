-- The end of claim and claim_shared, for a claim that is not granted. Uses their call, K, Q, W, tail, member,
-- lease, gap, now, ms, holder and fence. Inserted: {{most}}, the maximum number of waiters.
-- ->   'full' | {place in the queue or -1, ms until the lock may be granted, fence, holder}, and if several
--      claims hold together: {..., how many, token and member of one of them}
local place
if lease > 0 then
  -- By arrival, also if the clock was set back since the last claim arrived.
  local arrived, last = now[1] * 1000000 + now[2], call('ZRANGE', Q, -1, -1, 'WITHSCORES')[2]
  if last and tonumber(last) >= arrived then arrived = last + 1 end
  call('ZADD', Q, 'NX', arrived, member)
  call('ZADD', W, ms + lease, member)
  -- Both outlive every wait lease: a client with a short one must not shorten the stay of the others.
  call('PEXPIRE', Q, '{{QUEUE_TTL_MS}}')
  call('PEXPIRE', W, '{{QUEUE_TTL_MS}}')
  place = call('ZRANK', Q, member)
  if place >= 64 then
    -- A few dead waiters are skipped when their turn comes; many are removed here.
    local dead = call('ZRANGEBYSCORE', W, '-inf', ms, 'LIMIT', 0, 256)
    if #dead > 0 then
      call('ZREM', Q, unpack(dead))
      call('ZREM', W, unpack(dead))
      place = call('ZRANK', Q, member)
    end
    if place >= {{most}} then
      call('ZREM', Q, member)
      call('ZREM', W, member)
      return 'full'
    end
  end
end
local free_in = call('PTTL', K)
if holder and (string.byte(holder) or 0) > {{HEX_F}} then -- No id begins with such a letter.
  --{{shared}}
  local T, L = shared_keys(Q)
  -- Of the claims that hold together, the one with the longest lease.
  local last = shared_as(holder) and call('ZRANGE', L, -1, -1)[1]
  if last then
    -- A permit is free again when the first lease ends.
    if string.byte(holder) == {{MODE_PERMIT}} and string.byte(tail, {{TAIL_MODE}}) == {{MODE_PERMIT}} then
      free_in = math.max(call('ZRANGE', L, 0, 0, 'WITHSCORES')[2] - ms, 0)
    end
    local token = string.format('%.0f', call('ZSCORE', T, last) or 0)
    return {place or -1, free_in, fence, holder, call('ZRANK', L, last) + 1, token .. last}
  end
end
if (not holder or holder == '') and free_in ~= -2 then
  holder = '?' -- A key of another type, or an empty string: not a lock of ours.
elseif not holder then
  free_in = math.min(tonumber(call('ZSCORE', W, 'gap') or ms) - ms, gap)
end
return {place or -1, free_in, fence, holder or ''}
