-- Draws a token for the name $1, whose lock is held.
-- The row '' stores the floor: no forgotten name had a token above it.
INSERT INTO {fence} AS f (name, token)
VALUES ($1, greatest({now}, (SELECT token + 1 FROM {fence} WHERE name = '')))
ON CONFLICT (name) DO UPDATE SET token = greatest(f.token + 1, {now}) RETURNING f.token
