-- The release of a claim of claim_shared. KEYS and ARGV as in release. Inserted: {{gap}}, as in claim.
-- ->   1 the claim held or waited | 0 it did neither
local call, K, Q, W, F, me = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local member, gap, now = me .. ARGV[2], {{gap}}, call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
--{{hand_over}}
local holder = redis.pcall('GET', K) -- pcall: a key of another type must not stop the withdrawal.
local held = call('ZREM', L, member, '!' .. member)
call('ZREM', T, member, '!' .. member)
if shared_as(holder) ~= kind_of(member) then held = 0 end -- Its key is gone: it held nothing any more.
local waited = call('ZREM', Q, member)
if waited == 1 then call('ZREM', W, member) end

if held > 0 and tonumber(call('ZRANGE', L, -1, -1, 'WITHSCORES')[2] or 0) <= ms then
  call('DEL', T, L) -- It was the last holder.
  release_key()
elseif held > 0 then
  expire_with_last_lease(K, holder, T, L, ms)
  admit_waiters(holder)
elseif waited == 1 and not holder then
  wake_first() -- The claim that leaves may be the one that was woken.
elseif waited == 1 then
  admit_waiters(holder) -- The claim that leaves may have kept others back.
end
return held + waited > 0 and 1 or 0
