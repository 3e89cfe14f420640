-- Claims a lock that has no holder and no waiter. $1 name, $2 id, $3 ttl in us, $4 note, $5 owner. Returns the
-- token, or no row if the lock is busy. The row '' stores the floor: no forgotten name had a token above it.
INSERT INTO {lock} AS l (name, token, id, expires, since, note, owner)
VALUES ($1, greatest({now}, (SELECT token + 1 FROM {lock} WHERE name = '')), $2, {now} + $3, {now}, $4, $5)
ON CONFLICT (name) DO UPDATE SET token = greatest(l.token + 1, {now}), id = $2, expires = {now} + $3, since = {now},
    revoked = 0, note = $4, owner = $5
WHERE l.contended = 0 AND (l.id IS NULL OR l.expires <= {now})
RETURNING token
