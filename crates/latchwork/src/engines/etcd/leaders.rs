//! Who leads: whoever holds the lock of this name, and tells something. That stands in its key, as etcd's own elections
//! (`etcdctl elect`, Go's `concurrency.Election`) have it: they see our leaders, and we theirs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::connection::Connection;
use super::keys::{self, Contender};
use super::watches::Bell;
use super::wire::{RANGE, RangeRequest, RangeResponse};
use super::{Etcd, failure, queue};
use crate::engine::{CellState, Cells, Version, Written};
use crate::{LockName, Result};

/// So many keys are read at a time. The first is the holder's, unless it belongs to a lock with a longer name.
const PAGE: i64 = 16;

/// What the holders of locks tell.
pub(super) struct Leaders(pub(super) Etcd);

impl Leaders {
    /// The oldest of those who contend for a lock.
    async fn holder(&self, connection: &Connection, name: &LockName) -> Result<Option<Contender>> {
        let options = self.0.options();
        let mut request = queue::oldest(&options.namespace, name, PAGE);
        loop {
            let page: RangeResponse = connection.call(options, RANGE, request.clone()).await?;
            let last = page.kvs.last().map(|kv| kv.create_revision).filter(|_| page.more);
            if let Some(found) = page.kvs.into_iter().find_map(|kv| self.0.contender(name, kv)) {
                return Ok(Some(found));
            }
            let Some(last) = last else { return Ok(None) };
            request = RangeRequest { min_create_revision: last + 1, ..request };
        }
    }
}

fn leader(holder: Option<Contender>) -> CellState {
    holder.map_or(CellState::ABSENT, |holder| {
        let version = Version::new(u128::try_from(holder.revision).unwrap_or_default());
        holder.tells.map_or(CellState::ABSENT, |value| CellState::new(version, value))
    })
}

impl Cells for Leaders {
    /// As with other cells.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration {
        self.0.poll_interval(unchanged_for)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let connection = self.0.session.connection().await?;
        Ok(leader(self.holder(&connection, name).await?))
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(self.read(name).await?.version != seen)
    }

    async fn write_if(&self, _: &LockName, _: Version, _: Option<&[u8]>) -> Result<Written> {
        Err(failure::unsupported("etcd: the leader cannot be set; it must be elected"))
    }

    /// Watches the key of whoever holds; those behind it do not matter. If nobody holds, all who might come.
    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let connection = self.0.session.connection().await?;
        let bell = Arc::<Notify>::default();
        let first = self.holder(&connection, name).await?;
        let watched = match &first {
            Some(holder) => (holder.key.clone(), Vec::new()),
            None => keys::contenders(&self.0.options().namespace, name),
        };
        let watch = connection.watches.watch_all(&connection, watched, Bell::Waiter(bell.clone()));
        watch.until_created().await;
        // What happened before the server began to watch is not told.
        let now = self.holder(&connection, name).await?;
        let is_same = now.as_ref().map(|now| now.revision) == first.map(|first| first.revision);
        let version = leader(now).version;
        while is_same && version == seen && !watch.seen().is_changed {
            bell.notified().await;
        }
        Ok(())
    }
}
