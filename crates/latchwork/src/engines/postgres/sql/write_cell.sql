-- Writes a cell if its version is $3, and notifies its watchers. $1 name, $2 value (NULL: delete), $3 the
-- expected version (0: not set), $4 channel. Returns the new version, or no row if the cell has another
-- version.
WITH written AS (
    INSERT INTO {cell} AS c (name, version, value)
    SELECT $1, {now}, $2 WHERE $3 = 0 OR EXISTS (SELECT 1 FROM {cell} WHERE name = $1)
    ON CONFLICT (name) DO UPDATE SET version = greatest(c.version + 1, {now}), value = $2
    WHERE CASE WHEN c.value IS NULL THEN 0 ELSE c.version END = $3
    RETURNING version
)
SELECT version, pg_notify($4, '') IS NULL FROM written
