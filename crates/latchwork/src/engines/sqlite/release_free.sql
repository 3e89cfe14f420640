-- Releases an uncontended lock, in one statement. ?1 name, ?2 id. No row changed: not held by this claim, or contended.
UPDATE lock SET id = NULL WHERE name = ?1 AND id = ?2 AND contended = 0
