-- The holder and the waiters of the lock $1: backend number (0 for a prepared transaction, which has no
-- backend), start time, whether it holds the lock, application_name.
SELECT coalesce(l.pid, 0)::bigint, coalesce((extract(epoch FROM a.backend_start) * 1000000)::bigint, 0), l.granted,
    coalesce(a.application_name, '')
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid = (($1 >> 32) & 4294967295)::oid AND l.objid = ($1 & 4294967295)::oid
ORDER BY l.granted DESC, l.waitstart
