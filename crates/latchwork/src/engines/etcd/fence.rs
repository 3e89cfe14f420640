//! Prevents a claim from taking effect after its release.
//!
//! A put without a reply may be carried out at any time: a member that was stopped forwards the requests that
//! it had read before. After the release of its claim, such a put would create the key again, under a lease
//! that is kept alive for other locks.
//!
//! So every put compares the revision in which the fence of its lease was last changed. If a claim has an
//! unanswered put, its release also changes the fence. Every earlier put then fails, however late it arrives.
//! The fence is a key under the lease itself: once the lease ends, no put under it succeeds either, and no
//! key is left.

use std::sync::atomic::{AtomicU32, Ordering};

use super::connection::Connection;
use super::failure;
use super::keys;
use super::queue;
use super::session::Place;
use super::wire::{
    Compare, DELETE, DeleteRequest, DeleteResponse, Operation, Outcome, PutRequest, TXN, TxnRequest,
    TxnResponse,
};
use super::{Etcd, Options};
use crate::{Effect, Result};

/// The number of requests of one kind that were sent for a claim and not answered. The server may still carry
/// them out.
#[derive(Default)]
pub(super) struct Unanswered(AtomicU32);

impl Unanswered {
    pub(super) fn is_none(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Counts one more request, before it is sent. If the value is dropped before the reply, the request
    /// stays counted.
    fn send(&self) -> Sent<'_> {
        self.0.fetch_add(1, Ordering::AcqRel);
        Sent(self)
    }
}

struct Sent<'a>(&'a Unanswered);

impl Sent<'_> {
    /// The request was carried out, or never will be.
    fn answered(self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Etcd {
    /// Puts the key of a place. `None` if its lease ran out between two claims: the next claim uses another
    /// lease.
    pub(super) async fn put(
        &self,
        connection: &Connection,
        place: &Place,
        request: TxnRequest,
    ) -> Result<Option<TxnResponse>> {
        let key = keys::fence(&self.options().namespace, place.lease.id);
        loop {
            let believed = place.lease.fence.load(Ordering::Acquire);
            let mut request = request.clone();
            request.compare.push(Compare::changed_in(key.clone(), believed));
            request.failure.push(queue::own(&key));
            let sent = place.puts.send();
            let mut answer: TxnResponse = match connection.ask(self.options(), TXN, request).await {
                Ok(answer) => answer,
                Err(status) if failure::is_lease_gone(&status) => {
                    sent.answered();
                    place.lease.end();
                    return Ok(None);
                }
                Err(status) => {
                    let error = connection.failed(&status);
                    if error.effect() == Effect::None {
                        sent.answered();
                    }
                    return Err(error);
                }
            };
            sent.answered();
            if answer.succeeded {
                return Ok(Some(answer));
            }
            let fence = match answer.responses.pop().and_then(|last| last.outcome) {
                Some(Outcome::Range(range)) => range.kvs.first().map_or(0, |fence| fence.mod_revision),
                _ => return Err(failure::protocol_error(&connection.place)),
            };
            if fence == believed {
                return Ok(Some(answer));
            }
            // The fence was changed for another claim. Store the revision from the reply, unless another task
            // has stored a newer one.
            let _ = place.lease.fence.compare_exchange(believed, fence, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Deletes the key of a place, and makes sure that no earlier request can create it again. Returns
    /// whether the key existed.
    pub(super) async fn take_out(&self, connection: &Connection, place: &Place) -> Result<bool> {
        let fence = (!place.puts.is_none()).then(|| keys::fence(&self.options().namespace, place.lease.id));
        let sent = place.deletes.send();
        let was_there = match fence {
            None => delete(connection, self.options(), place.key.clone()).await?,
            Some(fence) => self.fence_off(connection, place, fence).await?,
        };
        sent.answered();
        Ok(was_there)
    }

    async fn fence_off(&self, connection: &Connection, place: &Place, fence: Vec<u8>) -> Result<bool> {
        let put = PutRequest { key: fence, lease: place.lease.id, ..PutRequest::default() };
        let delete = DeleteRequest { key: place.key.clone() };
        let success = vec![Operation::Put(put).into(), Operation::Delete(delete).into()];
        let request = TxnRequest { success, ..TxnRequest::default() };
        let answer: TxnResponse = match connection.ask(self.options(), TXN, request).await {
            Ok(answer) => answer,
            // The key is gone with its lease, and no put under that lease can succeed any more.
            Err(status) if failure::is_lease_gone(&status) => {
                place.lease.end();
                return Ok(false);
            }
            Err(status) => return Err(connection.failed(&status)),
        };
        let changed = answer.header.as_ref().map_or(0, |header| header.revision);
        place.lease.fence.fetch_max(changed, Ordering::AcqRel);
        let deleted = answer.responses.into_iter().any(
            |response| matches!(response.outcome, Some(Outcome::Delete(DeleteResponse { deleted })) if deleted > 0),
        );
        Ok(deleted)
    }
}

async fn delete(connection: &Connection, options: &Options, key: Vec<u8>) -> Result<bool> {
    let deleted: DeleteResponse = connection.call(options, DELETE, DeleteRequest { key }).await?;
    Ok(deleted.deleted > 0)
}
