-- This connection: backend number, start time, whether the server is a standby.
SELECT pid::bigint, (extract(epoch FROM backend_start) * 1000000)::bigint, pg_is_in_recovery()
FROM pg_stat_activity WHERE pid = pg_backend_pid()
