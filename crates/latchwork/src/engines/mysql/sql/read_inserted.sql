-- Reads inserted rows. $1 name or prefix, $2 age in us. Returns name, holder, time left in us, token, since, note.
SELECT l.unique_mutex, l.holder_id, TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), l.create_time + INTERVAL $2 MICROSECOND),
    t.token, t.since, t.note
FROM {table} AS l
LEFT JOIN {table}_token AS t ON t.unique_mutex = CAST(CONVERT(l.unique_mutex USING utf8mb4) AS BINARY)
    AND t.holder_id = CAST(TRIM(TRAILING '!' FROM CONVERT(l.holder_id USING utf8mb4)) AS BINARY)
WHERE {which}
ORDER BY CAST(CONVERT(l.unique_mutex USING utf8mb4) AS BINARY)
