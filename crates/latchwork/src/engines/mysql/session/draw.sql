INSERT INTO {fence} (name, token)
SELECT ?, LAST_INSERT_ID(GREATEST({now}, COALESCE(MAX(f.token) + 1, 0))) FROM {fence} AS f WHERE f.name = ''
ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST({fence}.token + 1, {now}))
