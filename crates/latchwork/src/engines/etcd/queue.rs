//! The queue of a lock: its contenders' keys in the order of their creation.

use super::Etcd;
use super::connection::Connection;
use super::contender_key::ContenderKey;
use super::keys;
use super::wire::{
    KeyValue, Operation, RANGE, RangeRequest, RangeResponse, RequestOp, SortOrder, SortTarget,
};
use crate::engine::Mode;
use crate::{LockName, Result};

/// The page size after a first page without a blocking key.
const PAGE: i64 = 64;

/// The size of the first page for a claim of this mode: the claim's own key, and enough others to decide that
/// the claim has to wait.
pub(super) fn first_page(mode: Mode) -> i64 {
    match mode {
        Mode::Permit { of } => 1 + i64::from(of).min(PAGE),
        Mode::Exclusive | Mode::Write | Mode::Read => 2,
    }
}

/// Reads the oldest contenders for a lock.
pub(super) fn oldest(namespace: &str, name: &LockName, limit: i64) -> RangeRequest {
    let (key, range_end) = keys::contenders(namespace, name);
    RangeRequest {
        key,
        range_end,
        limit,
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..RangeRequest::default()
    }
}

/// Reads the newest contenders among those created at `revision` or before.
pub(super) fn newest(namespace: &str, name: &LockName, revision: i64, limit: i64) -> RangeRequest {
    let sort_order = SortOrder::Descend.into();
    RangeRequest { sort_order, max_create_revision: revision, ..oldest(namespace, name, limit) }
}

/// Reads one key of a range, if there is any.
pub(super) fn any_in((key, range_end): (Vec<u8>, Vec<u8>)) -> RequestOp {
    range(RangeRequest { key, range_end, limit: 1, ..RangeRequest::default() })
}

/// Reads this key.
pub(super) fn get(key: &[u8]) -> RequestOp {
    range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() })
}

pub(super) fn range(request: RangeRequest) -> RequestOp {
    Operation::Range(request).into()
}

impl Etcd {
    pub(super) fn contender(&self, name: &LockName, kv: KeyValue) -> Option<ContenderKey> {
        ContenderKey::parse(&self.options().namespace, name, kv)
    }

    /// The contenders that a claim of this mode, created at `revision`, has to wait for. The claim holds the
    /// lock if there are none. One of them must leave before the claim can hold. A permit waits for the
    /// nearest ones, as many as there are permits. `first_page` was read together with the claim's own key.
    pub(super) async fn blockers(
        &self,
        connection: &Connection,
        name: &LockName,
        mode: Mode,
        revision: i64,
        first_page: RangeResponse,
    ) -> Result<Vec<ContenderKey>> {
        let (mut page, mut permits) = (first_page, Vec::new());
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
            // The page had only contenders that do not block, or keys of locks with longer names. No
            // contender can have been added between the pages: a later key has a later revision.
            let request = newest(&self.options().namespace, name, last - 1, PAGE);
            page = connection.call(self.options(), RANGE, request).await?;
        }
    }
}
