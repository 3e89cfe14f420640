-- Inserted where a grant to `member` is written to the fence. Uses call, F, member and now. Declares last,
-- the fence before, and token: max(last + 1, server time in us), or nil if the fence leaves no room for
-- tokens. The token is above the last one also after the clock was set back, and above it by time after the
-- last one was lost with the data. Digits, because Lua prints numbers slowly and rounds large ones.
local token = now[1] .. string.sub(1000000 + now[2], 2)
local last = call('SET', F, token .. member, 'PX', '{{FENCE_TTL_MS}}', 'GET')
if #token < {{TOKEN_LEN}}
    or last and (last >= token or (string.byte(last, {{FENCE_MODE}}) or 0) < {{MODE_PERMIT}}) then
  --{{next_token}}
  if token then call('SET', F, token .. member, 'PX', '{{FENCE_TTL_MS}}') end
end
