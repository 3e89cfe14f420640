-- The free lock nobody waits for: EXISTS, SET, TIME, SET, and nothing defined before, because that costs as much again.
local call = redis.call
if call('EXISTS', KEYS[2]) == 0 and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[3]) then
  local now = call('TIME')
  local token = now[1] .. string.sub(1000000 + now[2], 2)
  local last = call('SET', KEYS[4], token .. ARGV[1] .. ARGV[2], 'PX', '86400000', 'GET')
  if last and last >= token then
    token = string.format('%.0f', string.sub(last, 1, 16) + 1)
    call('SET', KEYS[4], token .. ARGV[1] .. ARGV[2], 'PX', '86400000')
  end
  return token
end
local function take(id, ms)
  return call('SET', KEYS[1], id, 'NX', 'PX', ms)
end
