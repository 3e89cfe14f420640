-- Claims a lock that has no holder and no waiter. $1 name, $2 id, $3 ttl in us, $4 note, $5 owner. The token is
-- the reply's LAST_INSERT_ID. No row matched: the lock is busy, or has no row.
UPDATE {lock} SET token = LAST_INSERT_ID(greatest(token + 1, {now})), id = $2, expires = {now} + $3, since = {now},
    revoked = 0, note = $4, owner = $5
WHERE name = $1 AND contended = 0 AND (id IS NULL OR expires <= {now})
