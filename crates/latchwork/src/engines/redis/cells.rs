//! Cells: each is a string beside the keys of locks, written by a script that compares versions.

use std::time::Duration;

use super::Redis;
use super::connection::Connection;
use super::keys::Keys;
use super::script_replies::protocol_error;
use super::scripts::Script;
use super::wire::{Command, Reply};
use crate::engine::{CellState, Cells, Version, Written};
use crate::{LockName, Result};

/// Digits of a version.
const DIGITS: usize = 16;
/// Before the key of a cell, in the name of the channel for its watchers.
pub(super) const CHANNEL: &str = "latchwork:cell:";

impl Redis {
    async fn read_cell(&self, connection: &Connection, key: &str) -> Result<CellState> {
        match connection.command(Command::of(&["GET", key]), self.options()).await? {
            Reply::Nil => Ok(CellState::ABSENT),
            Reply::BulkString(stored) => parse(&stored),
            _ => Err(protocol_error()),
        }
    }
}

/// Parses the version, `=` or `-`, and the value.
fn parse(stored: &[u8]) -> Result<CellState> {
    let (digits, rest) = stored.split_at_checked(DIGITS).ok_or_else(protocol_error)?;
    match rest {
        [b'-'] => Ok(CellState::ABSENT),
        [b'=', value @ ..] => Ok(CellState::new(version(digits)?, value.to_vec())),
        _ => Err(protocol_error()),
    }
}

fn version(digits: &[u8]) -> Result<Version> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(protocol_error)
}

impl Cells for Redis {
    /// The server publishes changes, except while the connection is being reopened, or if it is a replica
    /// that was promoted.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_secs(10)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let key = Keys::of(&self.options().prefix, name)?.cell();
        let connection = self.session.connection().await?;
        self.read_cell(&connection, &key).await.map_err(|error| error.with_effect(crate::Effect::None))
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(Cells::read(self, name).await?.version != seen)
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        let key = Keys::of(&self.options().prefix, name)?.cell();
        let seen = format!("{:0DIGITS$}", seen.get());
        let connection = self.session.connection().await?;
        let mut command = connection.script(Script::CellWrite, 1, key.len() + value.map_or(0, <[u8]>::len));
        command.arg(&key[..]).arg(&seen[..]);
        match value {
            Some(value) => command.parts(&[b"=", value]),
            None => command.parts(&[b"-"]),
        }
        command.parts(&[CHANNEL.as_bytes(), key.as_bytes()]);
        match connection.call(Script::CellWrite, command, self.options()).await? {
            Reply::Int(0) => Ok(Written::Changed),
            Reply::BulkString(_) if value.is_none() => Ok(Written::Done(Version::ABSENT)),
            Reply::BulkString(digits) => Ok(Written::Done(version(&digits)?)),
            _ => Err(protocol_error()),
        }
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let key = Keys::of(&self.options().prefix, name)?.cell();
        let connection = self.session.connection().await?;
        let channel = [CHANNEL, &key].concat();
        let listen = connection.subscribe(&channel, self.options());
        let look = async { Ok(self.read_cell(&connection, &key).await?.version != seen) };
        let (unsubscriber, unsubscribed) = (connection.clone(), channel.clone());
        let end = move || async move { unsubscriber.unsubscribe(&unsubscribed).await };
        connection.cells.wait_for_message(&channel, listen, look, end).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_cells_are_parsed_and_other_values_refused() {
        for (stored, state) in [
            (&b"0000000000000007=a=b"[..], CellState::new(Version::new(7), b"a=b".to_vec())),
            (b"0000000000000007=", CellState::new(Version::new(7), Vec::new())),
            (b"0000000000000007-", CellState::ABSENT),
        ] {
            assert_eq!(parse(stored).unwrap(), state);
        }
        for bad in [&b""[..], b"7=a", b"0000000000000007", b"000000000000000x=a", b"0000000000000007-x"] {
            assert!(parse(bad).is_err());
        }
    }
}
