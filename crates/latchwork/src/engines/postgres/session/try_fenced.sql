-- Takes the lock $1 if it is free, and draws a token of the name $2. A row with it, or none.
WITH tried AS MATERIALIZED (SELECT pg_try_advisory_lock($1) AS held)
INSERT INTO {fence} AS f (name, token) SELECT $2, {now} FROM tried WHERE held
ON CONFLICT (name) DO UPDATE SET token = greatest(f.token + 1, {now}) RETURNING f.token
