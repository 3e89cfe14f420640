//! Cells: the plain value at the key `<namespace><name>.cell`, so that `etcdctl get` and `etcdctl put` work
//! on them.
//!
//! No claim uses such a key, because a claim's key ends in digits. The version of a cell is the revision of
//! its last change. The cluster's revision only grows, whatever is deleted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Etcd;
use super::connection::Connection;
use super::key_watch::WatchRecipient;
use super::wire::{
    Compare, DeleteRangeRequest, Operation, PutRequest, RANGE, RangeRequest, RangeResponse, TXN, TxnRequest,
    TxnResponse,
};
use crate::engine::{CellState, Cells, Version, Written};
use crate::{LockName, Result};

impl Etcd {
    fn cell_key(&self, name: &LockName) -> Vec<u8> {
        format!("{}{}.cell", self.options().namespace, name.as_str()).into_bytes()
    }

    async fn read_cell(&self, connection: &Connection, name: &LockName) -> Result<CellState> {
        let range = RangeRequest { key: self.cell_key(name), ..RangeRequest::default() };
        let page: RangeResponse = connection.call(self.options(), RANGE, range).await?;
        Ok(page
            .kvs
            .into_iter()
            .next()
            .map_or(CellState::ABSENT, |kv| CellState::new(version(kv.mod_revision), kv.value)))
    }
}

fn version(revision: i64) -> Version {
    Version::new(u128::try_from(revision).unwrap_or_default())
}

impl Cells for Etcd {
    /// The server pushes every change, but some versions of etcd are known to lose events.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_secs(10)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let connection = self.shared.connection().await?;
        self.read_cell(&connection, name).await
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(Cells::read(self, name).await?.version != seen)
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        // A greater number is no revision of etcd.
        let Ok(seen) = i64::try_from(seen.get()) else { return Ok(Written::Changed) };
        let connection = self.shared.connection().await?;
        let key = self.cell_key(name);
        let operation = match value {
            Some(value) => Operation::Put(PutRequest {
                key: key.clone(),
                value: value.to_vec(),
                ..PutRequest::default()
            }),
            None => Operation::Delete(DeleteRangeRequest { key: key.clone() }),
        };
        let request = TxnRequest {
            compare: vec![Compare::modified_in(key, seen)],
            success: vec![operation.into()],
            failure: Vec::new(),
        };
        let response: TxnResponse = connection.call(self.options(), TXN, request).await?;
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        Ok(match (response.succeeded, value) {
            (false, _) => Written::Changed,
            (true, None) => Written::Done(Version::ABSENT),
            (true, Some(_)) => Written::Done(version(revision)),
        })
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let connection = self.shared.connection().await?;
        let (key, notify) = (self.cell_key(name), Arc::<Notify>::default());
        let recipient = WatchRecipient::Waiter(notify.clone());
        let watch = connection.watch_stream.watch(&connection, key, recipient);
        watch.until_created().await;
        // The watch does not report changes before its creation.
        let now = self.read_cell(&connection, name).await?.version;
        while now == seen && !watch.status().is_changed {
            notify.notified().await;
        }
        Ok(())
    }
}
