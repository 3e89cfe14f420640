-- Writes a cell if its version is $3. $1 name, $2 value (null: delete), $3 the expected version. The new
-- version is the reply's LAST_INSERT_ID. No row matched: the cell has another version.
UPDATE {cell} SET version = LAST_INSERT_ID(greatest(version + 1, {now})), value = $2
WHERE name = $1 AND version = $3 AND value IS NOT NULL
