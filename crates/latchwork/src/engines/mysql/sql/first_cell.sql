-- Sets a cell that is not set, also one that was deleted. $1 name, $2 value. Its version is the answer's LAST_INSERT_ID; 0: it is set.
-- What is set is seen by what is set behind it: the value comes last.
INSERT INTO {cell} (name, version, value) VALUES ($1, LAST_INSERT_ID({now}), $2)
ON DUPLICATE KEY UPDATE
    version = IF({cell}.value IS NULL, LAST_INSERT_ID(greatest({cell}.version + 1, {now})), {cell}.version + LAST_INSERT_ID(0)),
    value = IF({cell}.value IS NULL, VALUES(value), {cell}.value)
