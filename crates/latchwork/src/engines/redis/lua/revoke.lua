-- KEYS 1 holder. ARGV 1 its value. The value changes, so that the holder's next renewal finds it is not its own, and the
-- lease ends on its own: the holder is told in time. -> 1 done | 0 it is another's by now | -1 it would never end
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if string.sub(ARGV[1], 1, 1) == '!' then return 1 end -- It was revoked before.
if redis.call('PTTL', KEYS[1]) < 0 then return -1 end
redis.call('SET', KEYS[1], '!' .. ARGV[1], 'KEEPTTL')
return 1
