-- Gives back a lock that nobody waits for, in one statement. ?1 name, ?2 id. No change: not mine, or contended.
UPDATE lock SET id = NULL WHERE name = ?1 AND id = ?2 AND contended = 0
