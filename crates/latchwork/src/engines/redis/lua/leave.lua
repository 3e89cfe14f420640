-- The release of a claim of share. KEYS and ARGV as in release. Put in: {{gap}}, as there.
-- ->   1 something of this claim was there | 0 nothing was
local call, K, Q, W, F, me = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local member, gap, now = me .. ARGV[2], {{gap}}, call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
--{{hand_over}}
local holder = redis.pcall('GET', K) -- pcall: a key of another type must not stop the withdrawal.
local held = call('ZREM', L, member, '!' .. member)
call('ZREM', T, member, '!' .. member)
if shared_as(holder) ~= kind_of(member) then held = 0 end -- Its key is gone, and it held nothing any more.
local waited = call('ZREM', Q, member)
if waited == 1 then call('ZREM', W, member) end

if held > 0 and tonumber(call('ZRANGE', L, -1, -1, 'WITHSCORES')[2] or 0) <= ms then
  call('DEL', T, L) -- The last.
  let_go()
elseif held > 0 then
  last_as_long(K, holder, T, L, ms)
  let_in(holder)
elseif waited == 1 and not holder then
  wake() -- It may have been the one that was woken.
elseif waited == 1 then
  let_in(holder) -- It may have kept others back.
end
return held + waited > 0 and 1 or 0
