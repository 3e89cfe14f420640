-- KEYS as in claim. ARGV 1 claim id   2 the rest of the member   3 gap ms
-- To give back, to leave the queue, and to undo a claim whose reply was lost: one script, and it touches no other claim.
-- ->   1 something of this claim was there | 0 nothing was
local call = redis.call
local holder = redis.pcall('GET', KEYS[1]) -- pcall: a key of another type must not stop the withdrawal.
if holder == ARGV[1] and call('EXISTS', KEYS[2]) == 0 then
  return call('DEL', KEYS[1])
end
