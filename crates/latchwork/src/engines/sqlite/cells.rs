//! Cells: one row each. The row stays when the cell is deleted, so that no version is used twice.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::peer::Outbox;
use super::store::{first, transaction};
use super::{Shared, Sqlite};
use crate::clock;
use crate::engine::{CellState, Cells, Version, Written};
use crate::{LockName, Result};

/// Created on first use: databases without cells stay unchanged. `version` is that of the newest write.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS cell (name TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB) STRICT";
const READ: &str = "SELECT version, value FROM cell WHERE name = ?1 AND value IS NOT NULL";
const READ_VERSION: &str = "SELECT version FROM cell WHERE name = ?1 AND value IS NOT NULL";
const WRITE: &str = include_str!("write_cell.sql");
/// A value must survive a crash of the machine, a lock need not.
const DURABLE: &str = "PRAGMA synchronous = FULL";
const FAST: &str = "PRAGMA synchronous = NORMAL";

impl Shared {
    fn read_cell(&self, db: &Connection, name: &LockName) -> rusqlite::Result<CellState> {
        db.prepare_cached(TABLE)?.execute([])?;
        let read = |row: &rusqlite::Row<'_>| Ok(CellState::new(version(row.get(0)?), row.get(1)?));
        let found = db.prepare_cached(READ)?.query_row([name.as_str()], read).optional()?;
        Ok(found.unwrap_or(CellState::ABSENT))
    }

    fn read_cell_version(&self, db: &Connection, name: &LockName) -> rusqlite::Result<Version> {
        db.prepare_cached(TABLE)?.execute([])?;
        let found =
            db.prepare_cached(READ_VERSION)?.query_row([name.as_str()], |row| row.get(0)).optional()?;
        Ok(found.map_or(Version::ABSENT, version))
    }

    fn write_cell(
        &self,
        db: &Connection,
        name: &LockName,
        seen: Version,
        value: Option<&[u8]>,
    ) -> rusqlite::Result<Written> {
        // No write has had such a version.
        let Ok(seen) = i64::try_from(seen.get()) else { return Ok(Written::Changed) };
        db.execute_batch(DURABLE)?;
        let written = transaction(db, |db| {
            db.prepare_cached(TABLE)?.execute([])?;
            let values = params![name.as_str(), clock::wall_micros() as i64, value, seen];
            first(db.prepare_cached(WRITE)?, values, |row| row.get::<_, i64>(0))
        });
        db.execute_batch(FAST)?;
        Ok(match (written?, value) {
            (None, _) => Written::Changed,
            (Some(_), None) => Written::Done(Version::ABSENT),
            (Some(number), Some(_)) => Written::Done(version(number)),
        })
    }
}

fn version(number: i64) -> Version {
    Version::new(u128::try_from(number).unwrap_or_default())
}

impl Cells for Sqlite {
    /// The file announces no changes, and a poll costs some microseconds.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_millis(25)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let name = name.clone();
        self.write(move |shared, db| Ok((shared.read_cell(db, &name)?, Outbox::new()))).await
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        let name = name.clone();
        self.write(move |shared, db| Ok((shared.read_cell_version(db, &name)? != seen, Outbox::new()))).await
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        let (name, value) = (name.clone(), value.map(<[u8]>::to_vec));
        self.write(move |shared, db| {
            Ok((shared.write_cell(db, &name, seen, value.as_deref())?, Outbox::new()))
        })
        .await
    }

    async fn watch(&self, _: &LockName, _: Version) -> Result<()> {
        std::future::pending().await
    }
}
