-- The older form, for fleets that use it: SETNX and PEXPIRE, which only a script makes one step.
local call = redis.call
local function take(id, ms)
  return call('SETNX', KEYS[1], id) == 1 and call('PEXPIRE', KEYS[1], ms) == 1
end
if call('EXISTS', KEYS[2]) == 0 and take(ARGV[1], ARGV[3]) then
  local now = call('TIME')
  local token = now[1] .. string.sub(1000000 + now[2], 2)
  local last = call('SET', KEYS[4], token .. ARGV[1] .. ARGV[2], 'PX', '86400000', 'GET')
  if last and last >= token then
    token = string.format('%.0f', string.sub(last, 1, 16) + 1)
    call('SET', KEYS[4], token .. ARGV[1] .. ARGV[2], 'PX', '86400000')
  end
  return token
end
