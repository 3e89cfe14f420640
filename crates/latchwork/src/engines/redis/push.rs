//! What the server says without being asked.

use std::sync::Arc;

use super::cells::CHANNEL;
use super::wire::{self, Value};
use crate::engine::ClaimId;
use crate::engines::cell_subscriptions::CellSubscriptions;
use crate::engines::waiter_table::{Notification, WaiterTable};
use crate::net::pipeline::Codec;

/// Whom it is for.
pub(super) struct PushCodec {
    pub(super) waiters: Arc<WaiterTable>,
    /// What is said of cells that are watched.
    pub(super) cells: Arc<CellSubscriptions>,
}

impl Codec for PushCodec {
    type Reply = Value;
    type ParseProgress = wire::Begun;

    const MAX_REPLY: usize = wire::LONGEST_REPLY;

    fn decode(&self, bytes: &[u8], begun: &mut wire::Begun) -> Result<Option<(Value, usize)>, String> {
        wire::read(bytes, begun)
    }

    fn take_push(&self, reply: Value) -> Option<Value> {
        let Value::Push(said) = &reply else { return Some(reply) };
        match &said[..] {
            [Value::BulkString(kind), Value::BulkString(channel), Value::BulkString(message)]
                if kind == b"message" =>
            {
                self.told(channel, message);
                None
            }
            [Value::BulkString(kind), keys] if kind == b"invalidate" => {
                self.changed(keys);
                None
            }
            // How many channels there are now: the answer to whoever subscribed.
            [Value::BulkString(kind), ..] if kind.ends_with(b"subscribe") => Some(reply),
            _ => None,
        }
    }

    /// Maybe some news went with it: everybody asks.
    fn on_retired(&self) {
        self.waiters.recheck_all();
        self.cells.notify_all();
    }
}

impl PushCodec {
    fn told(&self, channel: &[u8], message: &[u8]) {
        if channel.starts_with(CHANNEL.as_bytes()) {
            self.cells.notify(&String::from_utf8_lossy(channel));
        } else if let Some((id, news)) = read_message(message) {
            self.waiters.deliver(id, news);
        }
    }

    /// Keys that [`Connection::watch`](super::connection::Connection::watch) asked about.
    fn changed(&self, keys: &Value) {
        match keys {
            Value::Array(keys) => {
                let keys = keys.iter().filter_map(|key| match key {
                    Value::BulkString(key) => Some(key),
                    _ => None,
                });
                keys.for_each(|key| self.waiters.changed(key));
            }
            // All of them: the database was flushed.
            _ => self.waiters.recheck_all(),
        }
    }
}

/// A claim's id, and its token if it was granted.
fn read_message(message: &[u8]) -> Option<(ClaimId, Notification)> {
    let (id, token) = message.split_at_checked(32)?;
    let id = super::record::parse_id(id)?;
    match token {
        [] => Some((id, Notification::Recheck)),
        token => Some((id, Notification::Granted(std::str::from_utf8(token).ok()?.parse().ok()?))),
    }
}
