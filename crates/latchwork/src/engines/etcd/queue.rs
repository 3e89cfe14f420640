//! Asking about the queue of a lock.

use super::Etcd;
use super::keys::{self, Contender};
use super::link::Link;
use super::wire::{
    ASCENDING, BY_CREATION, DESCENDING, Operation, RANGE, RangeRequest, RangeResponse, RequestOp,
};
use crate::engine::Mode;
use crate::{LockName, Result};

/// So many are read at a time when those who were read first were none to wait for.
const PAGE: i64 = 64;

/// The oldest of those who contend for a lock.
pub(super) fn oldest(namespace: &str, name: &LockName, limit: i64) -> RangeRequest {
    let (key, range_end) = keys::contenders(namespace, name);
    RangeRequest {
        key,
        range_end,
        limit,
        sort_order: ASCENDING,
        sort_target: BY_CREATION,
        ..RangeRequest::default()
    }
}

/// The newest of those who came at `revision` or before.
pub(super) fn newest(namespace: &str, name: &LockName, revision: i64, limit: i64) -> RangeRequest {
    RangeRequest { sort_order: DESCENDING, max_create_revision: revision, ..oldest(namespace, name, limit) }
}

pub(super) fn read(range: RangeRequest) -> RequestOp {
    Operation::Range(range).into()
}

/// The key itself.
pub(super) fn own(key: &[u8]) -> RequestOp {
    read(RangeRequest { key: key.to_vec(), ..RangeRequest::default() })
}

impl Etcd {
    pub(super) fn contender(&self, name: &LockName, kv: super::wire::KeyValue) -> Option<Contender> {
        Contender::of(&self.options().namespace, name, kv)
    }

    /// The newest of those before `revision` whom a claim of this mode has to wait for. `page` is what was read already.
    pub(super) async fn before(
        &self,
        link: &Link,
        name: &LockName,
        mode: Mode,
        revision: i64,
        page: RangeResponse,
    ) -> Result<Option<Contender>> {
        let mut page = page;
        loop {
            let Some(last) = page.kvs.last().map(|kv| kv.create_revision) else { return Ok(None) };
            let earlier = page.kvs.into_iter().filter(|kv| kv.create_revision < revision);
            let mut contenders = earlier.filter_map(|kv| self.contender(name, kv));
            if let Some(found) = contenders.find(|contender| contender.blocks(mode)) {
                return Ok(Some(found));
            }
            if !page.more {
                return Ok(None);
            }
            // What was read belongs to readers who do not matter, or to locks with longer names.
            let request = newest(&self.options().namespace, name, last - 1, PAGE);
            page = link.call(self.options(), RANGE, request).await?;
        }
    }
}
