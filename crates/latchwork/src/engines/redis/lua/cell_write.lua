-- KEYS 1 the cell: its version, 16 digits, then '=' and the value, or '-' if it was deleted
-- ARGV 1 the version that was seen, 16 digits; all zero: not set   2 '=' and the value, or '-'   3 channel of its watchers
-- ->   the version | 0 the cell has another version | error VERSION and the key: another program's value, or no
--      room for greater versions
-- Versions are max(last + 1, server time in us), as those of locks are; digits, because Lua's numbers lose some.
local last = redis.call('GET', KEYS[1])
local _, head = string.find(last or '', '^%d+[=-]')
if last and (head ~= 17 or last >= '9') then return {err = 'VERSION ' .. KEYS[1]} end -- Lua could not count on from there.
local version = last and string.sub(last, 1, 16)
local is_set = last and string.sub(last, 17, 17) == '='
if (is_set and version or '0000000000000000') ~= ARGV[1] then return 0 end
local now = redis.call('TIME')
local next_version = string.sub('0000000000' .. now[1], -10) .. string.sub(1000000 + now[2], 2)
if version and version >= next_version then
  local high, low = string.sub(version, 1, 8), string.sub(version, 9) + 1
  if low == 100000000 then high, low = string.format('%08d', high + 1), 0 end
  next_version = high .. string.format('%08d', low)
end
if ARGV[2] == '-' then
  -- For a day, so that a clock that is set back brings no version again.
  redis.call('SET', KEYS[1], next_version .. '-', 'PX', '86400000')
else
  redis.call('SET', KEYS[1], next_version .. ARGV[2])
end
redis.call('PUBLISH', ARGV[3], next_version)
return next_version
