local gap = tonumber(ARGV[3])

-- Lets the first waiter know that the key is free, for it to race for.
local function wake()
  for _ = 1, 256 do
    local first = first_alive()
    if not first then return end
    if tell(first, '') > 0 then return end
    call('ZREM', Q, first)
    call('ZREM', W, first)
  end
end

if holder == me or holder == '!' .. me then
  if gap > 0 then
    call('DEL', K)
    call('ZADD', W, ms + gap, 'gap')
    wake()
  elseif not hand_over() then
    call('DEL', K)
  end
  return 1
end

local member = me .. tail
if call('ZREM', Q, member) == 0 then return 0 end
call('ZREM', W, member)
if not holder then wake() end -- It may have been the one that was woken.
return 1
