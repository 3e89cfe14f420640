-- KEYS four for each lock, as in claim. ARGV 1 the maximum number of waiters, and of shared holders, in the
--      reply
-- ->   for each lock: {holder, ms until the key is free, fence, {waiting member, arrival in us, ...},
--      {member that holds together with others, token, ms until its lease ends, ...},
--      the key's type if it is not a string or an empty one, or ''}
local call, locks = redis.call, {}
local now = call('TIME')
local ms = math.floor((now[1] * 1000000 + now[2]) / 1000)
--{{shared}}
for at = 1, #KEYS, 4 do
  local both = call('MGET', KEYS[at], KEYS[at + 3])
  local free_in, waiters = call('PTTL', KEYS[at]), {}
  local queue = call('ZRANGE', KEYS[at + 1], 0, ARGV[1] - 1, 'WITHSCORES')
  for i = 1, #queue, 2 do
    if tonumber(call('ZSCORE', KEYS[at + 2], queue[i]) or 0) > ms then
      waiters[#waiters + 1] = queue[i]
      waiters[#waiters + 1] = queue[i + 1]
    end
  end
  local holder, kind = both[1] or '', ''
  if holder == '' and free_in ~= -2 then
    holder, kind = '?', 'string'
    if not both[1] then
      kind = redis.pcall('TYPE', KEYS[at]) -- pcall: the user may lack the permission.
      kind = kind['ok'] or 'key of another type'
    end
  end
  local holders = {}
  if shared_as(holder) then
    local T, L = shared_keys(KEYS[at + 1])
    local shown = call('ZRANGE', T, 0, ARGV[1] - 1, 'WITHSCORES')
    for i = 1, #shown, 2 do
      local left = (call('ZSCORE', L, shown[i]) or 0) - ms
      if left > 0 then
        holders[#holders + 1] = shown[i]
        holders[#holders + 1] = string.format('%.0f', shown[i + 1])
        holders[#holders + 1] = left
      end
    end
  end
  locks[#locks + 1] = {holder, free_in, both[2] or '', waiters, holders, kind}
end
return locks
