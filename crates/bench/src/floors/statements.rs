//! The SQLite engine's own two statements through rusqlite, in a loop: without core, session and writer
//! queue.

use std::path::Path;
use std::time::Duration;

use latchwork::clock::{self, Clock};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Statement, params};

use crate::Result;
use crate::contend::BlockingLock;

const SCHEMA: &str = include_str!("../../../latchwork/src/engines/sqlite/schema.sql");
const CLAIM: &str = include_str!("../../../latchwork/src/engines/sqlite/claim_free.sql");
const RELEASE: &str = include_str!("../../../latchwork/src/engines/sqlite/release_free.sql");
/// As in the engine's store.rs; a test compares the two.
const CHECKPOINT_AFTER_PAGES: i64 = 1_000;
const TTL: Duration = Duration::from_secs(30);

/// The database in `folder`, set up as the engine does it.
pub(crate) fn open(folder: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    // SQLite refuses a path with a link anywhere in it, so the folder is resolved first, as the engine does.
    let db = Connection::open_with_flags(folder.canonicalize()?.join("raw.db"), flags)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if db.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0))? == 0 {
        db.execute_batch(SCHEMA)?;
    }
    db.execute_batch("PRAGMA synchronous = NORMAL")?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_AFTER_PAGES)?;
    Ok(db)
}

/// Both statements, prepared once, for each of the names in turn.
pub(crate) struct Statements<'db> {
    claim: Statement<'db>,
    release: Statement<'db>,
    names: Vec<String>,
    turn: usize,
    id: u128,
    note: String,
}

impl<'db> Statements<'db> {
    pub(crate) fn new(db: &'db Connection, names: Vec<String>) -> Result<Self> {
        let (claim, release) = (db.prepare(CLAIM)?, db.prepare(RELEASE)?);
        let id = u128::from_ne_bytes(clock::random_bytes());
        // As long as the library's note.
        let note = format!("pid {} on benchmark", std::process::id());
        Ok(Self { claim, release, names, turn: 0, id, note })
    }
}

impl BlockingLock for Statements<'_> {
    fn acquire(&mut self) -> Result<()> {
        let wall = clock::wall_micros() as i64;
        let until = Clock::boottime().now().after(TTL).as_micros() as i64;
        self.id = self.id.wrapping_add(1);
        let (id, session) = (self.id.to_ne_bytes(), i64::MAX);
        let name = &self.names[self.turn % self.names.len()];
        let owner = None::<&str>;
        let mut rows = self.claim.query(params![name, wall, id, session, until, self.note, owner])?;
        let token: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
        // Stepped to the end: an unfinished RETURNING would keep its transaction open.
        while rows.next()?.is_some() {}
        token.map(drop).ok_or_else(|| "the raw claim found the lock taken".into())
    }

    fn release(&mut self) -> Result<()> {
        let (name, id) = (&self.names[self.turn % self.names.len()], self.id.to_ne_bytes());
        let freed = self.release.execute(params![name, id])?;
        self.turn += 1;
        if freed == 1 { Ok(()) } else { Err("the raw release freed nothing".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_checkpoints_its_log_as_often_as_the_engine() {
        let store = include_str!("../../../latchwork/src/engines/sqlite/store.rs");
        assert!(
            store.contains("CHECKPOINT_AFTER_PAGES: i64 = 1_000;"),
            "set CHECKPOINT_AFTER_PAGES as store.rs has it"
        );
        assert_eq!(CHECKPOINT_AFTER_PAGES, 1_000);
    }

    #[test]
    fn the_raw_pair_claims_and_releases_each_name_in_turn() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let db = open(folder.path())?;
        let mut pair = Statements::new(&db, vec!["a".into(), "b".into()])?;
        for _ in 0..5 {
            pair.acquire()?;
            assert!(pair.acquire().is_err());
            pair.id = pair.id.wrapping_sub(1);
            pair.release()?;
        }
        Ok(())
    }
}
