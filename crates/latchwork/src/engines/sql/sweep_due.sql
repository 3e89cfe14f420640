-- Whether the names must be looked through for old ones, judged without a lock: a sweep is unfinished, or the last one was an hour ago or
-- lies in the future (the clock was set back). A table without a floor gets one when it has old names, or many. How many names
-- of the first 500 there are, and the floor; no row: not due.
SELECT p.names, f.token
FROM (SELECT count(*) AS names, min(token) AS oldest
        FROM (SELECT token FROM {lock} WHERE name > '' ORDER BY name LIMIT 500) AS q) AS p
    LEFT JOIN {lock} AS f ON f.name = ''
WHERE CASE WHEN f.name IS NULL THEN p.names = 500 OR p.oldest < {now} - 86400000000
    ELSE f.note <> '' OR {now} - f.since NOT BETWEEN 0 AND 3600000000 END
