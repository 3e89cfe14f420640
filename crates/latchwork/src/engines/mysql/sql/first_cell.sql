-- Sets a cell that is not set, or was deleted. $1 name, $2 value. The version is the reply's LAST_INSERT_ID; 0:
-- the cell is set. An assignment sees the assignments before it, so the value comes last.
INSERT INTO {cell} (name, version, value) VALUES ($1, LAST_INSERT_ID({now}), $2)
ON DUPLICATE KEY UPDATE
    version = IF({cell}.value IS NULL, LAST_INSERT_ID(greatest({cell}.version + 1, {now})), {cell}.version + LAST_INSERT_ID(0)),
    value = IF({cell}.value IS NULL, VALUES(value), {cell}.value)
