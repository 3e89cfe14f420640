-- Put in where a script says so. Those who hold together stand beside the queue, by token in the key that ends with h and by
-- the end of their lease in the one that ends with l. The lock's own key says what kind they are and who was the first,
-- `r:<id>` or `p<number>:<id>`, and ends with the last of their leases: to others it is a key that is taken.

-- The kind of the holders that this value stands for, or nil. Values of other clients are longer, shorter or no such id.
local function shared_as(value)
  local kind = type(value) == 'string' and string.match(value, '^([rp]%d*):%x+$')
  return kind and #value == #kind + 33 and kind or nil
end

-- The same of a member: nil if it holds alone.
local function kind_of(member)
  return string.match(member, '^([rp]%d*)\n', 49)
end

-- Where those stand who hold the lock of this queue together: by token, by the end of their lease.
local function together(queue)
  local side = string.sub(queue, 1, -2)
  return side .. 'h', side .. 'l'
end

-- Lets the key end with the last lease.
local function last_as_long(key, value, tokens, leases, ms)
  local latest = tonumber(redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')[2])
  redis.call('SET', key, value, 'PXAT', string.format('%.0f', latest))
  local left = string.format('%.0f', latest - ms + 5000)
  redis.call('PEXPIRE', tokens, left)
  redis.call('PEXPIRE', leases, left)
end
