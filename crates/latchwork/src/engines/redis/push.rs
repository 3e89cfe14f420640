//! Messages that the server pushes.

use std::sync::Arc;

use super::cells::CHANNEL;
use super::lua::layout::ID_LEN;
use super::wire::{self, Reply, ScanProgress};
use crate::engine::ClaimId;
use crate::engines::cell_subscriptions::CellSubscriptions;
use crate::engines::waiter_table::{Notification, WaiterTable};
use crate::net::pipeline::Codec;

/// Parses replies, and delivers pushed messages to waiting claims and watched cells.
pub(super) struct PushCodec {
    pub(super) waiters: Arc<WaiterTable>,
    pub(super) cells: Arc<CellSubscriptions>,
}

impl Codec for PushCodec {
    type Reply = Reply;
    type Expected = ();
    type ParseProgress = ScanProgress;

    const MAX_UNREAD: usize = wire::MAX_REPLY;

    fn decode(
        &self,
        bytes: &mut &[u8],
        progress: &mut ScanProgress,
        _expected: impl FnOnce() -> Option<()>,
    ) -> Result<Option<Reply>, String> {
        let parsed = wire::parse(bytes, progress)
            .map_err(|why| format!("the server sent a reply that cannot be parsed: {why}"))?;
        let Some((reply, length)) = parsed else { return Ok(None) };
        *bytes = &bytes[length..];
        Ok(Some(reply))
    }

    fn take_push(&self, reply: Reply) -> Option<Reply> {
        let Reply::Push(parts) = &reply else { return Some(reply) };
        match &parts[..] {
            [Reply::BulkString(kind), Reply::BulkString(channel), Reply::BulkString(message)]
                if kind == b"message" =>
            {
                self.message(channel, message);
                None
            }
            [Reply::BulkString(kind), keys] if kind == b"invalidate" => {
                self.invalidated(keys);
                None
            }
            // The reply to SUBSCRIBE or UNSUBSCRIBE: the number of channels.
            [Reply::BulkString(kind), ..] if kind.ends_with(b"subscribe") => Some(reply),
            _ => None,
        }
    }

    /// Messages may be lost with the connection: every waiter and every watcher looks again.
    fn on_retired(&self) {
        self.waiters.recheck_all();
        self.cells.notify_all();
    }
}

impl PushCodec {
    fn message(&self, channel: &[u8], message: &[u8]) {
        if channel.starts_with(CHANNEL.as_bytes()) {
            self.cells.notify(&String::from_utf8_lossy(channel));
        } else if let Some((id, notification)) = parse_message(message) {
            self.waiters.deliver(id, notification);
        }
    }

    /// Keys that [`Connection::track`](super::connection::Connection::track) asked about.
    fn invalidated(&self, keys: &Reply) {
        match keys {
            Reply::Array(keys) => {
                let keys = keys.iter().filter_map(|key| match key {
                    Reply::BulkString(key) => Some(key),
                    _ => None,
                });
                keys.for_each(|key| self.waiters.changed(key));
            }
            // Null means all keys: the database was flushed.
            _ => self.waiters.recheck_all(),
        }
    }
}

/// A claim's id, and its token if it was granted.
fn parse_message(message: &[u8]) -> Option<(ClaimId, Notification)> {
    let (id, token) = message.split_at_checked(ID_LEN)?;
    let id = super::record::parse_id(id)?;
    match token {
        [] => Some((id, Notification::Recheck)),
        token => Some((id, Notification::Granted(std::str::from_utf8(token).ok()?.parse().ok()?))),
    }
}
