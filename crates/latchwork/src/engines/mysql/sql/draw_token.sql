-- Draws a token for the holder of a row, unless it has one already. $1 name, $2 holder, $6 note. The row is
-- locked until the commit, so no other client draws a token meanwhile. An assignment sees the assignments
-- before it, so the holder comes last. The row '' stores the floor: no forgotten name had a token above it.
INSERT INTO {table}_token (unique_mutex, token, holder_id, since, note)
SELECT $1, greatest({now}, coalesce(f.token + 1, 0)), $2, {now}, $6
FROM {table} AS l LEFT JOIN {table}_token AS f ON f.unique_mutex = ''
WHERE l.unique_mutex = $1 AND l.holder_id = $2
ON DUPLICATE KEY UPDATE
    since = IF({table}_token.holder_id = CAST($2 AS BINARY), {table}_token.since, {now}),
    token = IF({table}_token.holder_id = CAST($2 AS BINARY), {table}_token.token, greatest({table}_token.token + 1, {now})),
    note = $6, holder_id = $2
