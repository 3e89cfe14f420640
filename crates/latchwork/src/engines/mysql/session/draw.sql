INSERT INTO {fence} (name, token) VALUES (?, LAST_INSERT_ID({now}))
ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token + 1, {now}))
