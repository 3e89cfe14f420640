-- Inserts or replaces a row, and draws its token. $1 name, $2 holder, $3 ttl in us, $4 age in us, $5 owner or
-- null, $6 note. Returns the token and the time left, or no row if another holder's row is valid. The token is
-- drawn after the row is inserted: a concurrent insert of this row waits until this statement is committed. The
-- row '' stores the floor: no forgotten name had a token above it.
WITH held AS (
    INSERT INTO {table} AS l (unique_mutex, holder_id, create_time)
    VALUES (convert_from($1, 'UTF8'), convert_from($2, 'UTF8'), {from})
    ON CONFLICT (unique_mutex) DO UPDATE SET holder_id = excluded.holder_id, create_time = {from}
    WHERE l.create_time + {age} <= clock_timestamp()
        OR (l.holder_id <> excluded.holder_id
            AND (l.holder_id = convert_from($5, 'UTF8')
                OR (l.holder_id ~ '#[0-9a-f]{32}$' AND left(l.holder_id, -33) = convert_from($5, 'UTF8'))))
    RETURNING {left} AS lasts
)
INSERT INTO {table}_token AS t (unique_mutex, token, holder_id, since, note)
SELECT convert_from($1, 'UTF8'), greatest({now}, (SELECT token + 1 FROM {table}_token WHERE unique_mutex = '')),
    convert_from($2, 'UTF8'), {now}, convert_from($6, 'UTF8') FROM held
ON CONFLICT (unique_mutex) DO UPDATE
    SET token = greatest(t.token + 1, {now}), holder_id = excluded.holder_id, since = {now}, note = excluded.note
RETURNING token, (SELECT lasts FROM held)
