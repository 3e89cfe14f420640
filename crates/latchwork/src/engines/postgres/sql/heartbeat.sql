-- Extends the entry of a waiter. $1 name, $2 id, $3 lease in us. Returns its ticket, the time left of the first
-- lease ahead, the number of entries ahead, and the newest token; no row if the claim does not wait.
UPDATE {claim} AS c SET expires = {now} + $3 WHERE name = $1 AND id = $2 AND token = 0 RETURNING ticket,
    (SELECT min(h.expires) FROM (SELECT token, expires FROM {claim} WHERE name = $1 AND ticket > 0 ORDER BY ticket LIMIT 16) AS h
        WHERE h.token <> 0) - {now},
    (SELECT count(*) FROM (SELECT 1 FROM {claim} AS a WHERE a.name = $1 AND a.ticket > 0 AND a.ticket < c.ticket LIMIT 1000) AS b),
    (SELECT token FROM {lock} WHERE name = $1)
