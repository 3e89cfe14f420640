-- Takes a lock that nobody holds or waits for. $1 name, $2 id, $3 ttl in us, $4 note, $5 owner. Its token is the answer's
-- LAST_INSERT_ID; no row matched: busy, or never used.
UPDATE {lock} SET token = LAST_INSERT_ID(greatest(token + 1, {now})), id = $2, expires = {now} + $3, since = {now},
    revoked = 0, note = $4, owner = $5
WHERE name = $1 AND contended = 0 AND (id IS NULL OR expires <= {now})
