//! Asking about the queue of a lock.

use super::Etcd;
use super::connection::Connection;
use super::keys::{self, Contender};
use super::wire::{
    ASCENDING, BY_CREATION, DESCENDING, Operation, RANGE, RangeRequest, RangeResponse, RequestOp,
};
use crate::engine::Mode;
use crate::{LockName, Result};

/// So many are read at a time when those who were read first were none to wait for.
const PAGE: i64 = 64;

/// How many are read first for a claim of this mode: itself, and as many as can tell that it has to wait.
pub(super) fn first_page(mode: Mode) -> i64 {
    match mode {
        Mode::Permit { of } => 1 + i64::from(of).min(PAGE),
        Mode::Exclusive | Mode::Write | Mode::Read => 2,
    }
}

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

/// Any one of those between these keys.
pub(super) fn any((key, range_end): (Vec<u8>, Vec<u8>)) -> RequestOp {
    read(RangeRequest { key, range_end, limit: 1, ..RangeRequest::default() })
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

    /// Whom a claim of this mode that came at `revision` has to wait for: nobody, if it holds. One of them must leave before
    /// it can hold; of permits these are the nearest, as many as there are. `page` is what was read already.
    pub(super) async fn before(
        &self,
        connection: &Connection,
        name: &LockName,
        mode: Mode,
        revision: i64,
        page: RangeResponse,
    ) -> Result<Vec<Contender>> {
        let (mut page, mut permits) = (page, Vec::new());
        loop {
            let Some(last) = page.kvs.last().map(|kv| kv.create_revision) else { return Ok(Vec::new()) };
            let earlier = page.kvs.into_iter().filter(|kv| kv.create_revision < revision);
            for contender in earlier.filter_map(|kv| self.contender(name, kv)) {
                match (mode, contender.mode) {
                    (Mode::Permit { of }, Mode::Permit { .. }) => {
                        permits.push(contender);
                        if permits.len() >= of as usize {
                            return Ok(permits);
                        }
                    }
                    _ if contender.blocks(mode) => return Ok(vec![contender]),
                    _ => {}
                }
            }
            if !page.more {
                return Ok(Vec::new());
            }
            // What was read belongs to those who do not matter alone, or to locks with longer names. Nobody can have come
            // between them since: who comes later has a later revision.
            let request = newest(&self.options().namespace, name, last - 1, PAGE);
            page = connection.call(self.options(), RANGE, request).await?;
        }
    }
}
