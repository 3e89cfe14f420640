-- Inserted where the fence is not simply a token of ours below the new one. Reads last, the value of the
-- fence, and token. Sets number to the number in the fence, with 16 digits, and raises token above it. Both
-- are nil if Lua cannot count on from there. A token of ours is followed by a member, which may begin with
-- digits. Any other number ends with its last digit.
local is_ours = (string.byte(last or '', {{FENCE_MODE}}) or 0) >= {{MODE_PERMIT}}
local number = string.match(is_ours and string.sub(last, 1, {{TOKEN_LEN}}) or last or '', '^0*(%d*)')
number = string.rep('0', {{TOKEN_LEN}} - #number) .. number
token = string.rep('0', {{TOKEN_LEN}} - #token) .. token
if #number > {{TOKEN_LEN}} or number >= '9' then
  number, token = nil, nil
elseif number >= token then
  token = string.format('%0{{TOKEN_LEN}}.0f', number + 1)
end
