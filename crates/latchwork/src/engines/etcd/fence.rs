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

use std::sync::atomic::Ordering;

use super::Etcd;
use super::claim_key::ClaimKey;
use super::connection::Connection;
use super::errors;
use super::keys;
use super::options::Options;
use super::queue;
use super::wire::{
    Compare, DELETE_RANGE, DeleteRangeRequest, DeleteRangeResponse, Operation, OperationResponse, PutRequest,
    TXN, TxnRequest, TxnResponse,
};
use crate::{Effect, Result};

impl Etcd {
    /// Puts the key of a claim by `request`, under the fence of its lease. `None` if the lease ended between
    /// two claims: the next claim uses another lease.
    pub(super) async fn put_key(
        &self,
        connection: &Connection,
        claim_key: &ClaimKey,
        request: TxnRequest,
    ) -> Result<Option<TxnResponse>> {
        let lease = &claim_key.lease;
        let fence_key = keys::fence(&self.options().namespace, lease.id);
        loop {
            let expected = lease.fence.load(Ordering::Acquire);
            let mut request = request.clone();
            request.compare.push(Compare::modified_in(fence_key.clone(), expected));
            request.failure.push(queue::get(&fence_key));
            let put = claim_key.puts.begin();
            let mut response: TxnResponse = match connection.try_call(self.options(), TXN, request).await {
                Ok(response) => response,
                Err(status) if errors::is_lease_not_found(&status) => {
                    put.answered();
                    lease.set_ended();
                    return Ok(None);
                }
                Err(status) => {
                    let error = connection.error(&status);
                    if error.effect() == Effect::None {
                        put.answered();
                    }
                    return Err(error);
                }
            };
            put.answered();
            if response.succeeded {
                return Ok(Some(response));
            }
            let fence = match response.responses.pop().and_then(|last| last.response) {
                Some(OperationResponse::Range(range)) => {
                    range.kvs.first().map_or(0, |fence| fence.mod_revision)
                }
                _ => return Err(errors::protocol_error(&connection.shown_as)),
            };
            if fence == expected {
                return Ok(Some(response));
            }
            // The fence was changed for another claim. Store the revision from the reply, unless another task
            // has stored a newer one.
            let _ = lease.fence.compare_exchange(expected, fence, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Deletes the key of a claim, and makes sure that no earlier request can create it again. Returns
    /// whether the key existed.
    pub(super) async fn delete_key(&self, connection: &Connection, claim_key: &ClaimKey) -> Result<bool> {
        let fence_key =
            (!claim_key.puts.is_none()).then(|| keys::fence(&self.options().namespace, claim_key.lease.id));
        let delete = claim_key.deletes.begin();
        let existed = match fence_key {
            None => delete_plain(connection, self.options(), claim_key.key.clone()).await?,
            Some(fence_key) => self.delete_and_fence(connection, claim_key, fence_key).await?,
        };
        delete.answered();
        Ok(existed)
    }

    async fn delete_and_fence(
        &self,
        connection: &Connection,
        claim_key: &ClaimKey,
        fence_key: Vec<u8>,
    ) -> Result<bool> {
        let lease = &claim_key.lease;
        let put = PutRequest { key: fence_key, lease: lease.id, ..PutRequest::default() };
        let delete = DeleteRangeRequest { key: claim_key.key.clone() };
        let success = vec![Operation::Put(put).into(), Operation::Delete(delete).into()];
        let request = TxnRequest { success, ..TxnRequest::default() };
        let response: TxnResponse = match connection.try_call(self.options(), TXN, request).await {
            Ok(response) => response,
            // The key is gone with its lease, and no put under that lease can succeed any more.
            Err(status) if errors::is_lease_not_found(&status) => {
                lease.set_ended();
                return Ok(false);
            }
            Err(status) => return Err(connection.error(&status)),
        };
        let changed = response.header.as_ref().map_or(0, |header| header.revision);
        lease.fence.fetch_max(changed, Ordering::AcqRel);
        let mut deletes = response.responses.into_iter().filter_map(|response| match response.response {
            Some(OperationResponse::Delete(DeleteRangeResponse { deleted })) => Some(deleted),
            _ => None,
        });
        Ok(deletes.any(|deleted| deleted > 0))
    }
}

async fn delete_plain(connection: &Connection, options: &Options, key: Vec<u8>) -> Result<bool> {
    let response: DeleteRangeResponse =
        connection.call(options, DELETE_RANGE, DeleteRangeRequest { key }).await?;
    Ok(response.deleted > 0)
}
