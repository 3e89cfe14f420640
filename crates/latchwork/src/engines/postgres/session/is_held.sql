-- Whether this connection holds the lock $1.
SELECT count(*) > 0 FROM pg_locks
WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND objsubid = 1
    AND classid = (($1 >> 32) & 4294967295)::oid AND objid = ($1 & 4294967295)::oid
