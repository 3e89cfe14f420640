-- Reads inserted rows. $1 name or prefix, $2 age in us. Returns name, holder, time left in us, token, since, note.
SELECT convert_to(l.unique_mutex, 'UTF8'), convert_to(l.holder_id, 'UTF8'), {left}, t.token, t.since, convert_to(t.note, 'UTF8')
FROM {table} AS l
LEFT JOIN {table}_token AS t
    ON t.unique_mutex = l.unique_mutex COLLATE "C" AND t.holder_id = rtrim(l.holder_id, '!') COLLATE "C"
WHERE {which}
ORDER BY l.unique_mutex COLLATE "C"
