//! Cells: a row each in a table of its own, which is made when the first cell is used. A deleted cell keeps its row, so that
//! no version is ever given twice.

use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::statements::{NOW, Text};
use super::wire::Reply;
use crate::engine::{CellState, Cells, Version, Written};
use crate::engines::sql::{self, Value};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// The cells of one client.
pub(super) struct MysqlCells(pub(super) Arc<Server>);

/// What is asked of cells. Their values come in the order that stands here; so do their columns.
#[derive(Clone, Copy, Debug)]
pub(super) enum OfCells {
    /// Name. Version, value; no row: it is not set.
    Read,
    /// The same without the value.
    Look,
    /// See `sql/first_cell.sql`.
    SetFirst,
    /// See `sql/write_cell.sql`.
    Write,
}

impl OfCells {
    /// In the order of their numbers.
    const ALL: [Self; 4] = [Self::Read, Self::Look, Self::SetFirst, Self::Write];

    /// How they are spelled.
    pub(super) fn texts(table: &str) -> Vec<Text> {
        let spelled = |statement: Self| {
            let text = match statement {
                Self::Read => "SELECT version, value FROM {cell} WHERE name = $1 AND value IS NOT NULL",
                Self::Look => "SELECT version FROM {cell} WHERE name = $1 AND value IS NOT NULL",
                Self::SetFirst => include_str!("sql/first_cell.sql"),
                Self::Write => include_str!("sql/write_cell.sql"),
            };
            Text::numbered(&text.replace("{cell}", &format!("{table}_cell")).replace("{now}", NOW))
        };
        Self::ALL.map(spelled).into()
    }
}

/// What makes the table.
pub(super) fn table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table}_cell (name VARBINARY(512) PRIMARY KEY, version BIGINT NOT NULL, \
         value MEDIUMBLOB) ENGINE=InnoDB"
    )
}

impl MysqlCells {
    async fn run(&self, statement: OfCells, values: &[Value]) -> Result<Reply> {
        sql::retry_on_conflict(|| async { self.0.pool().await?.run_on_cells(statement, values).await }).await
    }

    /// Runs a statement that only reads.
    async fn look(&self, statement: OfCells, name: &LockName) -> Result<Option<Vec<Value>>> {
        let reply = self.run(statement, &[Value::bytes(name.as_str().as_bytes())]).await;
        let reply = reply.map_err(|error| error.with_effect(Effect::None))?;
        Ok(reply.rows.apart().into_iter().next())
    }
}

fn protocol_error() -> Error {
    Error::new(ErrorKind::Corrupt, "the table of cells holds something that Latchwork did not write")
}

impl Cells for MysqlCells {
    /// The server tells nobody of a change.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration {
        sql::look_at_cell_in(unchanged_for)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        match self.look(OfCells::Read, name).await?.map(<[Value; 2]>::try_from) {
            None => Ok(CellState::ABSENT),
            Some(Ok([Value::Int(version), Value::Bytes(value)])) => {
                Ok(CellState::new(Version::new(version as u128), value))
            }
            Some(_) => Err(protocol_error()),
        }
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        match self.look(OfCells::Look, name).await?.as_deref() {
            None => Ok(seen != Version::ABSENT),
            Some([Value::Int(version)]) => Ok(seen != Version::new(*version as u128)),
            Some(_) => Err(protocol_error()),
        }
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        // Such a version was never given.
        let Ok(seen) = i64::try_from(seen.get()) else { return Ok(Written::Changed) };
        let name = Value::bytes(name.as_str().as_bytes());
        let reply = match (seen, value) {
            (0, Some(value)) => self.run(OfCells::SetFirst, &[name, Value::bytes(value)]).await?,
            (seen, value) => {
                let value = value.map_or(Value::Null, Value::bytes);
                self.run(OfCells::Write, &[name, value, Value::Int(seen)]).await?
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
