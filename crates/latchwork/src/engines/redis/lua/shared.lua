-- Inserted where a script needs it. Claims that hold together are in two zsets beside the queue: by token in
-- the key that ends with h, and by the end of their lease in the key that ends with l. The lock's own key
-- holds their kind and the id of the first, `r:<id>` or `p<number>:<id>`, and ends with the last of their
-- leases: other clients see a key that is taken.

-- The kind of the holders for which this value stands, or nil. Values of other clients are longer, shorter or
-- have no such id.
local function shared_as(value)
  local kind = type(value) == 'string' and string.match(value, '^([rp]%d*):%x+$')
  return kind and #value == #kind + (1 + {{ID_LEN}}) and kind or nil
end

-- The kind of a member, or nil if it holds alone.
local function kind_of(member)
  return string.match(member, '^([rp]%d*)\n', {{MEMBER_MODE}})
end

-- The two zsets of the lock with this queue: by token, by the end of the lease.
local function shared_keys(queue)
  local side = string.sub(queue, 1, -2)
  return side .. 'h', side .. 'l'
end

-- Lets the key end with the last lease.
local function expire_with_last_lease(key, value, tokens, leases, ms)
  local latest = tonumber(redis.call('ZRANGE', leases, -1, -1, 'WITHSCORES')[2])
  redis.call('SET', key, value, 'PXAT', string.format('%.0f', latest))
  local left = string.format('%.0f', latest - ms + 5000)
  redis.call('PEXPIRE', tokens, left)
  redis.call('PEXPIRE', leases, left)
end
