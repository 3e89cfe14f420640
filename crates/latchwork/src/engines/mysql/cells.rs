//! Cells: one row for each, in a table that is created when the first cell is used. A deleted cell keeps its
//! row, so that no version is ever used twice.

use std::sync::Arc;
use std::time::Duration;

use super::rows::MysqlRows;
use super::statements::{NOW, Text};
use super::wire::Reply;
use crate::engine::{CellState, Cells, Version, Written};
use crate::engines::sql::{self, SqlValue};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// The cells of one client.
pub(super) struct MysqlCells(pub(super) Arc<MysqlRows>);

/// The statements on cells. Each variant lists its values in their order, and then the columns of its rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellStatement {
    /// A cell: name. Version, value; no row if it is not set.
    Read,
    /// The version of a cell: name. Version; no row if it is not set.
    ReadVersion,
    /// See `sql/first_cell.sql`.
    SetFirst,
    /// See `sql/write_cell.sql`.
    Write,
}

impl CellStatement {
    /// In the order of their discriminants, by which prepared statements are indexed.
    const ALL: [Self; 4] = [Self::Read, Self::ReadVersion, Self::SetFirst, Self::Write];

    /// The SQL of all statements.
    pub(super) fn texts(table: &str) -> Vec<Text> {
        let text = |statement: Self| {
            let text = match statement {
                Self::Read => "SELECT version, value FROM {cell} WHERE name = $1 AND value IS NOT NULL",
                Self::ReadVersion => "SELECT version FROM {cell} WHERE name = $1 AND value IS NOT NULL",
                Self::SetFirst => include_str!("sql/first_cell.sql"),
                Self::Write => include_str!("sql/write_cell.sql"),
            };
            Text::numbered(&text.replace("{cell}", &format!("{table}_cell")).replace("{now}", NOW))
        };
        Self::ALL.map(text).into()
    }
}

/// The statement that creates the table.
pub(super) fn create_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table}_cell (name VARBINARY(512) PRIMARY KEY, version BIGINT NOT NULL, \
         value MEDIUMBLOB) ENGINE=InnoDB"
    )
}

impl MysqlCells {
    async fn run(&self, statement: CellStatement, values: &[SqlValue]) -> Result<Reply> {
        sql::retry_on_conflict(|| async { self.0.pool().await?.run_on_cells(statement, values).await }).await
    }

    /// Runs a statement that only reads.
    async fn read_row(&self, statement: CellStatement, name: &LockName) -> Result<Option<Vec<SqlValue>>> {
        let reply = self.run(statement, &[SqlValue::bytes(name.as_str().as_bytes())]).await;
        let reply = reply.map_err(|error| error.with_effect(Effect::None))?;
        Ok(reply.rows.to_vecs().into_iter().next())
    }
}

fn protocol_error() -> Error {
    Error::new(ErrorKind::Corrupt, "the table of cells holds something that Latchwork did not write")
}

impl Cells for MysqlCells {
    /// The server sends no notifications of changes.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration {
        sql::poll_cell_in(unchanged_for)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        match self.read_row(CellStatement::Read, name).await?.map(<[SqlValue; 2]>::try_from) {
            None => Ok(CellState::ABSENT),
            Some(Ok([SqlValue::Int(version), SqlValue::Bytes(value)])) => {
                Ok(CellState::new(Version::new(version as u128), value))
            }
            Some(_) => Err(protocol_error()),
        }
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        match self.read_row(CellStatement::ReadVersion, name).await?.as_deref() {
            None => Ok(seen != Version::ABSENT),
            Some([SqlValue::Int(version)]) => Ok(seen != Version::new(*version as u128)),
            Some(_) => Err(protocol_error()),
        }
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        // No cell has such a version.
        let Ok(seen) = i64::try_from(seen.get()) else { return Ok(Written::Changed) };
        let name = SqlValue::bytes(name.as_str().as_bytes());
        let reply = match (seen, value) {
            (0, Some(value)) => self.run(CellStatement::SetFirst, &[name, SqlValue::bytes(value)]).await?,
            (seen, value) => {
                let value = value.map_or(SqlValue::Null, SqlValue::bytes);
                self.run(CellStatement::Write, &[name, value, SqlValue::Int(seen)]).await?
            }
        };
        Ok(match (reply.matched, reply.insert_id, value) {
            (0, ..) | (_, 0, _) => Written::Changed,
            (_, _, None) => Written::Done(Version::ABSENT),
            (_, version, Some(_)) => Written::Done(Version::new(version.into())),
        })
    }

    async fn watch(&self, _: &LockName, _: Version) -> Result<()> {
        std::future::pending().await
    }
}
