-- The state of a claim in the queue, for waiters that receive no notifications. $1 name, $2 id. Now, its token
-- (0: it waits), its expiry, the earliest expiry of a holder, when the newest holder was granted the lock, the
-- number of holders, the number of entries ahead (up to a thousand), the newest token; then the first holder as
-- an entry. Takes no row lock and writes nothing.
SELECT {now}, c.token, c.expires, h.first_end, h.last_begin, h.holders,
    (SELECT count(*) FROM (SELECT 1 FROM {claim} WHERE name = $1 AND ticket > 0
        AND ticket < (SELECT ticket FROM {claim} WHERE name = $1 AND id = $2) LIMIT 1000) AS before_it), l.token,
    f.ticket, f.id, f.channel, f.mode, f.permits, f.token, f.hand_over, f.expires, f.since, f.revoked, f.note, f.owner
FROM {claim} AS c JOIN {lock} AS l ON l.name = c.name JOIN
    (SELECT min(ticket) AS first, min(expires) AS first_end, max(since) AS last_begin, count(*) AS holders
        FROM (SELECT ticket, token, expires, since FROM {claim} WHERE name = $1 AND ticket > 0 ORDER BY ticket LIMIT 16) AS front
        WHERE token <> 0) AS h ON 1 = 1
    LEFT JOIN {claim} AS f ON f.name = c.name AND f.ticket = h.first
WHERE c.name = $1 AND c.id = $2
