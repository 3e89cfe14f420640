-- Inserted where the fence is not simply one of our tokens below the new one. Reads last, the value of the
-- fence, and token. Sets number to the number in the fence, with 16 digits, and raises token above it. Both are
-- nil if Lua cannot count on from there. A token of ours is followed by a member, which may begin with digits.
-- Any other number ends with its last digit.
local number = string.match((string.byte(last or '', 65) or 0) > 111 and string.sub(last, 1, 16) or last or '', '^0*(%d*)')
number = string.rep('0', 16 - #number) .. number
token = string.rep('0', 16 - #token) .. token
if #number > 16 or number >= '9' then
  number, token = nil, nil
elseif number >= token then
  token = string.format('%016.0f', number + 1)
end
