-- Whether a sweep for old names is due, judged without a lock: the last sweep raised the floor to a day before its
-- end, and that was more than an hour ago. A table without a floor gets one when it has old names, or many. Returns
-- the number of names, counted up to 500, and the floor. No row: not due.
SELECT p.names, f.token
FROM (SELECT count(*) AS names, min(token) AS oldest
        FROM (SELECT token FROM {tokens} WHERE {name} > '' ORDER BY {name} LIMIT 500) AS q) AS p
    LEFT JOIN {tokens} AS f ON f.{name} = ''
WHERE CASE WHEN f.token IS NULL THEN p.names = 500 OR p.oldest < {day_ago} ELSE f.token < {day_ago} - 3600000000 END
