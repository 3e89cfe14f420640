//! The position of a claim's key in the queue of its lock.

use super::Etcd;
use super::claim_key::ClaimKey;
use super::connection::Connection;
use super::contender_key::ContenderKey;
use super::queue;
use super::wire::{TXN, TxnRequest, TxnResponse};
use crate::Result;
use crate::engine::Claim;

/// The position of a claim's key in the queue.
pub(super) enum KeyPosition {
    /// The claim holds the lock. With the revision in which its key was created.
    Holds(i64),
    Waits {
        /// The claim's turn can come when one of these has left.
        blockers: Vec<ContenderKey>,
        /// The oldest contender, if it was read.
        holder: Option<ContenderKey>,
    },
    /// The claim's key does not exist.
    Gone,
}

impl KeyPosition {
    pub(super) fn new(revision: i64, blockers: Vec<ContenderKey>, holder: Option<ContenderKey>) -> Self {
        if blockers.is_empty() { Self::Holds(revision) } else { Self::Waits { blockers, holder } }
    }
}

impl Etcd {
    /// Reads the position of a claim's key that was created at `revision`. The transaction only reads, so it
    /// does not go through the cluster's log.
    pub(super) async fn read_position(
        &self,
        connection: &Connection,
        claim: &Claim,
        claim_key: &ClaimKey,
        revision: i64,
    ) -> Result<KeyPosition> {
        let namespace = &self.options().namespace;
        let first_page = queue::first_page(claim.mode);
        let success = vec![
            queue::get(&claim_key.key),
            queue::range(queue::oldest(namespace, &claim.name, 1)),
            queue::range(queue::newest(namespace, &claim.name, revision - 1, first_page)),
        ];
        let request = TxnRequest { success, ..TxnRequest::default() };
        // If this member does not reply, enough time must be left to renew the lease through another one.
        let timeout = claim_key.lease.reply_timeout();
        let response = connection.try_call_within(timeout, self.options(), TXN, request).await;
        let response: TxnResponse = response.map_err(|status| connection.error(&status))?;
        let mut ranges = response.ranges();
        let [own, oldest, newest] = std::array::from_fn(|_| ranges.next().unwrap_or_default());
        // The own key is read in the same transaction: a claim whose key is gone must not conclude from an
        // empty queue that it holds the lock.
        if own.kvs.first().is_none_or(|kv| kv.create_revision != revision) {
            self.shared.update(claim.id, |claim_key| claim_key.revision = None);
            return Ok(KeyPosition::Gone);
        }
        let holder = oldest.kvs.into_iter().find_map(|kv| self.contender(&claim.name, kv));
        let blockers = self.blockers(connection, &claim.name, claim.mode, revision, newest).await?;
        Ok(KeyPosition::new(revision, blockers, holder))
    }
}
