-- Draws a token of the name $1, whose lock is held.
INSERT INTO {fence} AS f (name, token) VALUES ($1, {now})
ON CONFLICT (name) DO UPDATE SET token = greatest(f.token + 1, {now}) RETURNING f.token
