-- Whether a sweep for old names is due, judged without a lock: a sweep is unfinished, or the last one was an hour
-- ago or lies in the future (the clock was set back). A table without a floor gets one when it has old names, or
-- many. Returns the number of names, counted up to 500, and the floor. No row: not due.
SELECT p.names, f.token
FROM (SELECT count(*) AS names, min(token) AS oldest
        FROM (SELECT token FROM {lock} WHERE name > '' ORDER BY name LIMIT 500) AS q) AS p
    LEFT JOIN {lock} AS f ON f.name = ''
WHERE CASE WHEN f.name IS NULL THEN p.names = 500 OR p.oldest < {now} - 86400000000
    ELSE f.note <> '' OR {now} - f.since NOT BETWEEN 0 AND 3600000000 END
