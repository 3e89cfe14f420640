//! Removes the claims of an earlier boot, and forgets locks that were not used for long.

use std::time::Duration;

use rusqlite::Connection;

use super::errors::explain;
use super::location::Location;
use super::peer::send_all;
use super::queue::Queue;
use super::store::transaction;
use crate::{Result, clock};

/// The time for which an unused lock is kept, and the time between two sweeps. The floor of tokens stays.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

const REMOVE_CLAIMS: &str = "UPDATE lock SET id = NULL, contended = 0, \
     token = max(token, coalesce((SELECT max(token) FROM claim WHERE claim.name = lock.name), 0))";
const RAISE_FLOOR: &str = "UPDATE meta SET floor = max(floor, \
     (SELECT coalesce(max(token), 0) FROM lock WHERE id IS NULL AND contended = 0 AND token < ?1))";

/// Sweeps, if the machine was booted since the last sweep, or that was [`FORGET_AFTER`] ago. Tokens stay.
pub(super) fn sweep(location: &Location, connection: &Connection) -> Result<()> {
    sweep_if_due(location, connection).map_err(|error| explain(location, error))
}

fn sweep_if_due(location: &Location, connection: &Connection) -> rusqlite::Result<()> {
    // An error, because a wrong guess would remove the claims of living holders.
    let boot = clock::boot_id().map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let (boot, wall) = (boot.as_str(), clock::wall_micros() as i64);
    let (known_boot, swept) = connection.query_row("SELECT boot, swept FROM meta", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    let old = wall - FORGET_AFTER.as_micros() as i64;
    if known_boot == boot && swept > old {
        return Ok(());
    }
    let mut queue = Queue::new(connection, 0, &location.sessions);
    transaction(connection, |connection| {
        if known_boot != boot {
            connection.execute(REMOVE_CLAIMS, [])?;
            connection.execute("DELETE FROM claim", [])?;
        }
        forget_idle(connection, &mut queue, old)?;
        connection.execute("UPDATE meta SET boot = ?1, swept = ?2", (boot, wall)).map(drop)
    })?;
    send_all(queue.outbox);
    Ok(())
}

/// Forgets locks whose newest token is older than `old`. The floor remembers the greatest of their tokens.
fn forget_idle(connection: &Connection, queue: &mut Queue<'_>, old: i64) -> rusqlite::Result<()> {
    let idle = "SELECT name FROM lock WHERE contended = 1 AND token < ?1";
    let names = connection
        .prepare(idle)?
        .query_map([old], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    for name in names {
        queue.remove_gone(&name)?;
    }
    connection.execute("UPDATE lock SET id = NULL WHERE contended = 0 AND expires <= ?1", [queue.now])?;
    // Records of revocations, of holders that ended without a renewal.
    connection.execute("DELETE FROM claim WHERE revoked AND expires = 0 AND token < ?1", [old])?;
    connection.execute(RAISE_FLOOR, [old])?;
    connection.execute("DELETE FROM lock WHERE id IS NULL AND contended = 0 AND token < ?1", [old]).map(drop)
}
