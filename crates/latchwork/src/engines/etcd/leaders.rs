//! Leaders: the holder of a lock that proclaims a value leads. The value is in the holder's key, as with
//! etcd's own elections (`etcdctl elect`, Go's `concurrency.Election`): their observers see leaders of this
//! engine, and the reverse.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::connection::Connection;
use super::contender_key::ContenderKey;
use super::key_watch::WatchRecipient;
use super::keys;
use super::wire::{RANGE, RangeRequest, RangeResponse};
use super::{Etcd, errors, queue};
use crate::engine::{CellState, Cells, Version, Written};
use crate::{LockName, Result};

/// The number of keys that are read in one request. The first is the holder's, unless it belongs to a lock
/// with a longer name.
const PAGE: i64 = 16;

/// The values that the holders of locks proclaim, as cells.
pub(super) struct Leaders(pub(super) Etcd);

impl Leaders {
    /// The oldest contender for a lock.
    async fn holder(&self, connection: &Connection, name: &LockName) -> Result<Option<ContenderKey>> {
        let options = self.0.options();
        let mut request = queue::oldest(&options.namespace, name, PAGE);
        loop {
            let page: RangeResponse = connection.call(options, RANGE, request.clone()).await?;
            let last = page.kvs.last().map(|kv| kv.create_revision).filter(|_| page.more);
            if let Some(holder) = page.kvs.into_iter().find_map(|kv| self.0.contender(name, kv)) {
                return Ok(Some(holder));
            }
            let Some(last) = last else { return Ok(None) };
            request = RangeRequest { min_create_revision: last + 1, ..request };
        }
    }
}

fn leader(holder: Option<ContenderKey>) -> CellState {
    holder.map_or(CellState::ABSENT, |holder| {
        let version = Version::new(u128::try_from(holder.revision).unwrap_or_default());
        holder.proclaimed.map_or(CellState::ABSENT, |value| CellState::new(version, value))
    })
}

impl Cells for Leaders {
    /// As often as other cells.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration {
        self.0.poll_interval(unchanged_for)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let connection = self.0.shared.connection().await?;
        Ok(leader(self.holder(&connection, name).await?))
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(self.read(name).await?.version != seen)
    }

    async fn write_if(&self, _: &LockName, _: Version, _: Option<&[u8]>) -> Result<Written> {
        Err(errors::unsupported("etcd: the leader cannot be set; it must be elected"))
    }

    /// Watches the holder's key; waiters do not matter. Without a holder, watches the keys of all possible
    /// contenders.
    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let connection = self.0.shared.connection().await?;
        let notify = Arc::<Notify>::default();
        let first = self.holder(&connection, name).await?;
        let range = match &first {
            Some(holder) => (holder.key.clone(), Vec::new()),
            None => keys::contenders(&self.0.options().namespace, name),
        };
        let recipient = WatchRecipient::Waiter(notify.clone());
        let watch = connection.watch_stream.watch_range(&connection, range, recipient);
        watch.until_created().await;
        // The watch does not report changes before its creation.
        let now = self.holder(&connection, name).await?;
        let is_same = now.as_ref().map(|now| now.revision) == first.map(|first| first.revision);
        let version = leader(now).version;
        while is_same && version == seen && !watch.status().is_changed {
            notify.notified().await;
        }
        Ok(())
    }
}
