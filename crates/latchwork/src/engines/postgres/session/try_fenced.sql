-- Takes the lock $1 if it is free, and draws a token for the name $2. Returns the token, or no row if the lock is busy.
-- The row '' stores the floor: no forgotten name had a token above it.
WITH tried AS MATERIALIZED (SELECT pg_try_advisory_lock($1) AS held)
INSERT INTO {fence} AS f (name, token)
SELECT $2, greatest({now}, (SELECT token + 1 FROM {fence} WHERE name = '')) FROM tried WHERE held
ON CONFLICT (name) DO UPDATE SET token = greatest(f.token + 1, {now}) RETURNING f.token
