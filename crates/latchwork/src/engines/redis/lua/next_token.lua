-- Put in where a fence is not simply one of ours below the token. Uses last, what stands in the fence, and token. Makes number
-- of the one, 16 digits, and raises the other above it; both are nil if Lua cannot count on from there. Behind a token of ours
-- stands a member, which may begin with digits; any other number ends with its last digit.
local number = string.match((string.byte(last or '', 65) or 0) > 111 and string.sub(last, 1, 16) or last or '', '^0*(%d*)')
number = string.rep('0', 16 - #number) .. number
token = string.rep('0', 16 - #token) .. token
if #number > 16 or number >= '9' then
  number, token = nil, nil
elseif number >= token then
  token = string.format('%016.0f', number + 1)
end
