-- Gives back a lock that nobody waits for. $1 name, $2 id. Nothing changed: not ours, or contended.
UPDATE {lock} SET id = NULL WHERE name = $1 AND id = $2 AND contended = 0
