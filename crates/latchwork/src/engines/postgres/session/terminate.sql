-- Ends the backend $1 that was started at $2 (0: at any time), and waits up to $3 milliseconds until it is gone.
SELECT pg_terminate_backend(pid, $3) FROM pg_stat_activity
WHERE pid = $1 AND ($2 = 0 OR (extract(epoch FROM backend_start) * 1000000)::bigint = $2)
