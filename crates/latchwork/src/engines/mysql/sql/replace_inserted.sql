-- Replaces a row that is expired, or of the same owner. $1 name, $2 holder, $3 ttl in us, $4 age in us, $5
-- owner or null.
UPDATE {table} SET holder_id = $2, create_time = {from}
WHERE unique_mutex = $1 AND (create_time + INTERVAL $4 MICROSECOND <= SYSDATE(6)
    OR (holder_id <> $2 AND (CAST(holder_id AS BINARY) = CAST($5 AS BINARY)
        OR (SUBSTRING(holder_id, -33, 1) = '#'
            AND CAST(LEFT(holder_id, CHAR_LENGTH(holder_id) - 33) AS BINARY) = CAST($5 AS BINARY)))))
