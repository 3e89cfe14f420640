-- KEYS 1 holder, as a plain string that every other client's SET NX respects
--      2 fence: the newest token, 16 digits, then the member it was granted to
-- ARGV 1 value   2 member   3 ttl ms   4 the token that the client proposes to every master, 16 digits
-- ->   token | {-1, ms until the key is free, fence, holder} | error FENCE, as claim
local call, K, F, token, last = redis.call, KEYS[1], KEYS[2], ARGV[4], nil
if call('SET', K, ARGV[1], 'NX', 'PX', ARGV[3]) then
  last = call('SET', F, token .. ARGV[2], 'PX', '{{FENCE_TTL_MS}}', 'GET')
  -- The common case: above the last token, and by less than an hour.
  if last and last < token and (string.byte(last, {{FENCE_MODE}}) or 0) >= {{MODE_PERMIT}}
      and token - string.sub(last, 1, {{TOKEN_LEN}}) < 3600000000 then
    return token
  end
else
  local both = call('MGET', K, F) -- A key of another type reads as nil.
  if both[1] ~= ARGV[1] then return {-1, call('PTTL', K), both[2] or '', both[1] or '?'} end
  call('PEXPIRE', K, ARGV[3])
  last = both[2]
  -- Sent again, after a lost reply: the same answer.
  local id = string.sub(ARGV[2], 1, {{MEMBER_ID_END}})
  if last and string.sub(last, {{FENCE_ID}}, {{FENCE_ID_END}}) == id then
    return string.sub(last, 1, {{TOKEN_LEN}})
  end
end
-- The token: max(last + 1, proposal). A client whose clock is far ahead must not use up the numbers of years.
local now = call('TIME')
local limit = string.format('%.0f', now[1] + 3600) .. string.sub(1000000 + now[2], 2)
if token > limit then token = limit end
--{{next_token}}
if not token then
  call('SET', F, last)
  call('DEL', K)
  return {err = 'FENCE ' .. F}
end
call('SET', F, token .. ARGV[2], 'PX', '{{FENCE_TTL_MS}}')
return token
