-- Releases a lock that has no waiter. $1 name, $2 id. No row changed: another claim holds it, or it is contended.
UPDATE {lock} SET id = NULL WHERE name = $1 AND id = $2 AND contended = 0
