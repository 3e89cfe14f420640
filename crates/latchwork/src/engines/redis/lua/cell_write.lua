-- KEYS 1 the cell: its version, 16 digits, then '=' and the value, or '-' if it was deleted
-- ARGV 1 the version that the client read, 16 digits; all zero: not set   2 '=' and the value, or '-'
--      3 channel of the cell's watchers
-- ->   the version | 0 the cell has another version | error VERSION and the key: another program's value, or
--      no room for greater versions
-- Versions follow the formula of tokens, max(last + 1, server time in us). They are digits, because Lua
-- rounds large numbers.
local stored = redis.call('GET', KEYS[1])
local _, head = string.find(stored or '', '^%d+[=-]')
if stored and (head ~= {{TOKEN_LEN}} + 1 or stored >= '9') then
  return {err = 'VERSION ' .. KEYS[1]} -- Lua cannot count on from there.
end
local last = stored and string.sub(stored, 1, {{TOKEN_LEN}})
local is_set = stored and string.sub(stored, {{TOKEN_LEN}} + 1, {{TOKEN_LEN}} + 1) == '='
if (is_set and last or string.rep('0', {{TOKEN_LEN}})) ~= ARGV[1] then return 0 end
local now = redis.call('TIME')
local token = now[1] .. string.sub(1000000 + now[2], 2)
if #token < {{TOKEN_LEN}} or last and last >= token then
  --{{next_token}}
end
if ARGV[2] == '-' then
  -- For a day, so that a clock that is set back does not bring a version back.
  redis.call('SET', KEYS[1], token .. '-', 'PX', '{{FENCE_TTL_MS}}')
else
  redis.call('SET', KEYS[1], token .. ARGV[2])
end
redis.call('PUBLISH', ARGV[3], token)
return token
