-- Layout 2 of a lock database. Times are microseconds: `expires` on CLOCK_BOOTTIME of the boot named in `meta`,
-- `since` and the floor of tokens on the wall clock. Names compare bytewise.

PRAGMA page_size = 1024;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;

CREATE TABLE meta (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    boot TEXT NOT NULL,        -- claims of another boot are void: their holders died with it
    floor INTEGER NOT NULL,    -- no forgotten lock had a greater token
    swept INTEGER NOT NULL     -- when idle locks were last forgotten
) STRICT;
INSERT INTO meta VALUES (1, '', 0, 0);

-- A row per name ever used. Without contention it also names the holder, so that one statement claims the lock and one
-- releases it. If `contended` is set, holders and waiters are rows of `claim`.
CREATE TABLE lock (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,    -- the newest grant's
    contended INTEGER NOT NULL DEFAULT 0,
    id BLOB,                   -- NULL: free, or contended
    session INTEGER NOT NULL DEFAULT 0,
    expires INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL DEFAULT 0,
    revoked INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT '',
    owner TEXT                 -- the identity of the holder across restarts
) STRICT, WITHOUT ROWID;

-- Holders and waiters of contended locks, in the order of their tickets.
CREATE TABLE claim (
    name TEXT NOT NULL,
    ticket INTEGER NOT NULL,
    id BLOB NOT NULL,          -- no index: holders stand first, and waiters are rarely looked up
    session INTEGER NOT NULL,
    mode INTEGER NOT NULL,     -- 0 exclusive, 1 read, 2 write, 3 permit
    permits INTEGER NOT NULL,  -- how many may hold, for mode 3
    token INTEGER NOT NULL,    -- 0: waiting
    hand_over INTEGER NOT NULL,-- the length of the first lease if the lock is handed over
    expires INTEGER NOT NULL,
    since INTEGER NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL,
    owner TEXT,
    PRIMARY KEY (name, ticket)
) STRICT, WITHOUT ROWID;

PRAGMA application_id = 1281454179; -- "Latc"
PRAGMA user_version = 2;
COMMIT;
