-- Writes a cell if it is what was seen. $1 name, $2 value (null: deleted), $3 the version that was seen. Its version is the answer's
-- LAST_INSERT_ID; no row matched: it is another.
UPDATE {cell} SET version = LAST_INSERT_ID(greatest(version + 1, {now})), value = $2
WHERE name = $1 AND version = $3 AND value IS NOT NULL
