//! Cells: the value as it is, at `<namespace><name>.cell`, so that `etcdctl get` and `etcdctl put` work on them.
//!
//! No claim stands at such a key, because a claim's ends in digits. The version is the revision of the last change: the
//! cluster counts it on, whatever is deleted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Etcd;
use super::connection::Connection;
use super::watches::Bell;
use super::wire::{
    Compare, DeleteRequest, Operation, PutRequest, RANGE, RangeRequest, RangeResponse, TXN, TxnRequest,
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
        let found: RangeResponse = connection.call(self.options(), RANGE, range).await?;
        Ok(found
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
    /// Every change is told; but versions of etcd are known that lose one now and then.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_secs(10)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        let connection = self.session.connection().await?;
        self.read_cell(&connection, name).await
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        Ok(Cells::read(self, name).await?.version != seen)
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        // Such a revision there is none.
        let Ok(seen) = i64::try_from(seen.get()) else { return Ok(Written::Changed) };
        let connection = self.session.connection().await?;
        let key = self.cell_key(name);
        let operation = match value {
            Some(value) => Operation::Put(PutRequest {
                key: key.clone(),
                value: value.to_vec(),
                ..PutRequest::default()
            }),
            None => Operation::Delete(DeleteRequest { key: key.clone() }),
        };
        let request = TxnRequest {
            compare: vec![Compare::changed_in(key, seen)],
            success: vec![operation.into()],
            failure: Vec::new(),
        };
        let answer: TxnResponse = connection.call(self.options(), TXN, request).await?;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        Ok(match (answer.succeeded, value) {
            (false, _) => Written::Changed,
            (true, None) => Written::Done(Version::ABSENT),
            (true, Some(_)) => Written::Done(version(revision)),
        })
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let connection = self.session.connection().await?;
        let bell = Arc::<Notify>::default();
        let watch = connection.watches.watch(&connection, self.cell_key(name), Bell::Waiter(bell.clone()));
        watch.until_created().await;
        // What happened before the server began to watch is not told.
        let now = self.read_cell(&connection, name).await?.version;
        while now == seen && !watch.seen().is_changed {
            bell.notified().await;
        }
        Ok(())
    }
}
