-- Writes a cell if it is what was seen, and tells its watchers. $1 name, $2 value (NULL: deleted), $3 the version that was seen
-- (0: not set), $4 channel. Its version; no row: it is another.
WITH written AS (
    INSERT INTO {cell} AS c (name, version, value)
    SELECT $1, {now}, $2 WHERE $3 = 0 OR EXISTS (SELECT 1 FROM {cell} WHERE name = $1)
    ON CONFLICT (name) DO UPDATE SET version = greatest(c.version + 1, {now}), value = $2
    WHERE CASE WHEN c.value IS NULL THEN 0 ELSE c.version END = $3
    RETURNING version
)
SELECT version, pg_notify($4, '') IS NULL FROM written
