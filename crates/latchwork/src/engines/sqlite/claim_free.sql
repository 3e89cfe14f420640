-- Claims a lock without holders and waiters, in one statement. The token is that of `next_engine_token` in token.rs.
-- ?1 name, ?2 wall clock, ?3 id, ?4 session, ?5 expires, ?6 note, ?7 owner. Returns the token; no row: busy, or a
-- repeated id.
INSERT INTO lock (name, token, id, session, expires, since, note, owner)
VALUES (?1, max(?2, (SELECT floor + 1 FROM meta)), ?3, ?4, ?5, ?2, ?6, ?7)
ON CONFLICT (name) DO UPDATE SET
    token = max(lock.token + 1, ?2), id = ?3, session = ?4, expires = ?5, since = ?2, note = ?6, owner = ?7,
    revoked = 0
WHERE lock.id IS NULL AND lock.contended = 0
RETURNING token
