-- Writes a cell if its version is still ?4. ?1 name, ?2 wall clock in us, ?3 value (NULL: deleted), ?4 expected version
-- (0: not set). Returns the new version; no row: the cell has another version.
INSERT INTO cell (name, version, value)
SELECT ?1, ?2, ?3 WHERE ?4 = 0 OR EXISTS (SELECT 1 FROM cell WHERE name = ?1)
ON CONFLICT (name) DO UPDATE SET version = max(version + 1, ?2), value = ?3
WHERE CASE WHEN value IS NULL THEN 0 ELSE version END = ?4
RETURNING version
