-- A sign of life of a waiter. $1 name, $2 id, $3 for how long in us. Its ticket, how long the first lease ahead of it still lasts,
-- how many stand before it, and the newest token; no row: it does not wait.
UPDATE {claim} AS c SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND token = 0 RETURNING ticket,
    (SELECT min(h.expires) FROM (SELECT token, expires FROM {claim} WHERE name = $1 AND ticket > 0 ORDER BY ticket LIMIT 16) AS h
        WHERE h.token <> 0) - {now},
    (SELECT count(*) FROM (SELECT 1 FROM {claim} AS a WHERE a.name = $1 AND a.ticket > 0 AND a.ticket < c.ticket LIMIT 1000) AS b),
    (SELECT token FROM {lock} WHERE name = $1)
