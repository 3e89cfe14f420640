//! Cells: one row for each, in a table that is created when the first cell is used. A deleted cell keeps its
//! row, so that no version is ever used twice.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use super::connection::Connection;
use super::grants;
use super::rows::PostgresRows;
use super::statements::NOW;
use crate::engine::{CellState, Cells, Version, Written};
use crate::engines::sql;
use crate::{Error, ErrorKind, LockName, Result};

const READ: &str = "SELECT version, value FROM {cell} WHERE name = $1 AND value IS NOT NULL";
const READ_VERSION: &str = "SELECT version FROM {cell} WHERE name = $1 AND value IS NOT NULL";
const WRITE: &str = include_str!("sql/write_cell.sql");

/// The cells of one client.
pub(super) struct PostgresCells(pub(super) Arc<PostgresRows>);

/// The statement that creates the table.
pub(super) fn create_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table}_cell (name bytea PRIMARY KEY, version bigint NOT NULL, value bytea);"
    )
}

/// The channel of a cell's watchers. If two cells share a channel, each also wakes the watchers of the other,
/// which does no harm.
fn channel(table: &str, name: &LockName) -> String {
    // FNV-1a gives the same hash in every process and every version.
    let bytes = table.bytes().chain([0]).chain(name.as_str().bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("latchwork_cell_{hash:016x}")
}

impl PostgresCells {
    fn table(&self) -> &str {
        &self.0.shared.options.table
    }

    /// Runs a statement, and repeats it if its table had to be created.
    async fn run(
        &self,
        connection: &Connection,
        text: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let text = text.replace("{cell}", &format!("{}_cell", self.table())).replace("{now}", NOW);
        let sql = || grants::of_cells(&self.0.shared.options);
        // A denied statement suggests the grants for the tables of locks, which would not help here.
        let denied = |error: Error| if error.sql().is_some() { error.with_sql(sql()) } else { error };
        if let Some(rows) = connection.query(&text, values).await.map_err(denied)? {
            return Ok(rows);
        }
        connection.create_tables(&create_table(self.table()), sql()).await?;
        let dropped = || {
            Error::new(ErrorKind::Unreachable, "postgres: the table of cells was created, and dropped again")
        };
        connection.query(&text, values).await.map_err(denied)?.ok_or_else(dropped)
    }

    /// Runs a statement that only reads.
    async fn read_row(
        &self,
        connection: &Connection,
        text: &str,
        name: &LockName,
    ) -> Result<Option<tokio_postgres::Row>> {
        let name = name.as_str().as_bytes();
        let rows = self.run(connection, text, &[(&name, Type::BYTEA)]).await;
        let rows = rows.map_err(|error| error.with_effect(crate::Effect::None))?;
        Ok(rows.into_iter().next())
    }

    async fn version_of(&self, connection: &Connection, name: &LockName) -> Result<Version> {
        let row = self.read_row(connection, READ_VERSION, name).await?;
        Ok(row.map_or(Version::ABSENT, |row| version(row.get("version"))))
    }
}

fn version(number: i64) -> Version {
    Version::new(u128::try_from(number).unwrap_or_default())
}

impl Cells for PostgresCells {
    /// The server sends notifications of changes, except through a pooler.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration {
        if self.0.shared.is_known_pooled() {
            sql::poll_cell_in(unchanged_for)
        } else {
            Duration::from_secs(5)
        }
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let pool = self.0.pool().await?;
        let (_guard, connection) = pool.main().await;
        let row = self.read_row(connection, READ, name).await?;
        Ok(row.map_or(CellState::ABSENT, |row| CellState::new(version(row.get("version")), row.get("value"))))
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        let pool = self.0.pool().await?;
        let (_guard, connection) = pool.main().await;
        Ok(self.version_of(connection, name).await? != seen)
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        // No cell has such a version.
        let Ok(seen) = i64::try_from(seen.get()) else { return Ok(Written::Changed) };
        let (pool, channel) = (self.0.pool().await?, channel(self.table(), name));
        let name = name.as_str().as_bytes();
        let values: [(&(dyn ToSql + Sync), Type); 4] =
            [(&name, Type::BYTEA), (&value, Type::BYTEA), (&seen, Type::INT8), (&channel, Type::TEXT)];
        let (_guard, connection) = pool.main().await;
        let rows = sql::retry_on_conflict(|| self.run(connection, WRITE, &values)).await?;
        Ok(match (rows.first(), value) {
            (None, _) => Written::Changed,
            (Some(_), None) => Written::Done(Version::ABSENT),
            (Some(row), Some(_)) => Written::Done(version(row.get("version"))),
        })
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let (pool, channel) = (self.0.pool().await?, channel(self.table(), name));
        let listen = async {
            let (_guard, connection) = pool.main().await;
            // A second LISTEN has no effect. Behind a pooler there are no notifications, and the core polls.
            if !self.0.shared.is_known_pooled() {
                connection.command(&format!("LISTEN {channel}")).await?;
            }
            Ok(())
        };
        let check = async {
            let (_guard, connection) = pool.main().await;
            Ok(self.version_of(connection, name).await? != seen)
        };
        let is_pooled = self.0.shared.is_known_pooled();
        let (last_pool, last_channel) = (pool.clone(), channel.clone());
        let unlisten = move || async move {
            let (_guard, connection) = last_pool.main().await;
            if !is_pooled {
                let _ = connection.command(&format!("UNLISTEN {last_channel}")).await;
            }
        };
        pool.cell_subscriptions().wait_for_message(&channel, listen, check, unlisten).await
    }
}
