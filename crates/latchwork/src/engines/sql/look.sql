-- How a waiter's claim stands, for those whom nobody tells. $1 name, $2 id. Its token (0: it waits), how long its lease or its place
-- still lasts, how long the first lease of a holder does, how long ago the last holder came, how many hold, how many stand
-- before it (up to a thousand), and the newest token. Locks and writes nothing.
SELECT c.token, c.expires - {now}, h.first_end - {now}, {now} - h.last_begin, h.holders,
    (SELECT count(*) FROM (SELECT 1 FROM {claim} WHERE name = $1
        AND ticket < (SELECT ticket FROM {claim} WHERE name = $1 AND id = $2) LIMIT 1000) AS before_it), l.token
FROM {claim} AS c, {lock} AS l,
    (SELECT min(expires) AS first_end, max(since) AS last_begin, count(*) AS holders
        FROM (SELECT token, expires, since FROM {claim} WHERE name = $1 ORDER BY ticket LIMIT 16) AS front
        WHERE token <> 0) AS h
WHERE c.name = $1 AND c.id = $2 AND l.name = $1
