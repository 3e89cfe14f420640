//! The operations that run in one transaction on one lock.

use std::future::Future;

use super::entry::Entry;
use super::queue::{Queue, TransactionEnd};
use super::row_store::Transaction;
use crate::engine::{Claim, ClaimId, Released, Revoke, Revoked, Verdict};
use crate::{LockName, Result};

/// An operation on one lock.
pub(super) trait LockOperation: Sync {
    type Answer: Send;

    fn lock(&self) -> &LockName;

    /// The claim it is about.
    fn id(&self) -> ClaimId;

    /// The answer for a lock without a row. `None`: the row is created.
    fn without_row(&self) -> Option<Self::Answer>;

    /// Runs on the queue of the lock. `own` is the entry of the claim.
    fn run<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        own: Option<Entry>,
    ) -> impl Future<Output = Result<TransactionEnd<Self::Answer>>> + Send;
}

pub(super) struct ClaimOperation<'a> {
    pub(super) claim: &'a Claim,
    /// The channel on which its client receives notifications.
    pub(super) channel: Option<&'a [u8]>,
}

impl LockOperation for ClaimOperation<'_> {
    /// `Err`: the reason why the claim is refused.
    type Answer = Result<Verdict>;

    fn lock(&self) -> &LockName {
        &self.claim.name
    }

    fn id(&self) -> ClaimId {
        self.claim.id
    }

    fn without_row(&self) -> Option<Self::Answer> {
        None
    }

    async fn run<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        own: Option<Entry>,
    ) -> Result<TransactionEnd<Self::Answer>> {
        match queue.check_permits(self.claim) {
            Ok(()) => Ok(queue.claim(self.claim, own, self.channel).await?.map(Ok)),
            Err(refused) => Ok(TransactionEnd::RollBack(Err(refused))),
        }
    }
}

pub(super) struct ReleaseOperation<'a>(pub(super) &'a Claim);

impl LockOperation for ReleaseOperation<'_> {
    type Answer = Released;

    fn lock(&self) -> &LockName {
        &self.0.name
    }

    fn id(&self) -> ClaimId {
        self.0.id
    }

    fn without_row(&self) -> Option<Released> {
        Some(Released::NotHeld)
    }

    async fn run<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        own: Option<Entry>,
    ) -> Result<TransactionEnd<Released>> {
        queue.release(self.0, own).await
    }
}

pub(super) struct RevokeOperation<'a> {
    pub(super) lock: &'a LockName,
    pub(super) id: ClaimId,
    pub(super) how: Revoke,
}

impl LockOperation for RevokeOperation<'_> {
    type Answer = Revoked;

    fn lock(&self) -> &LockName {
        self.lock
    }

    fn id(&self) -> ClaimId {
        self.id
    }

    fn without_row(&self) -> Option<Revoked> {
        Some(Revoked::NotHeld)
    }

    async fn run<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        own: Option<Entry>,
    ) -> Result<TransactionEnd<Revoked>> {
        queue.revoke(self.id, own, self.how).await
    }
}

/// Removes expired entries from a queue.
pub(super) struct TidyOperation<'a>(pub(super) &'a LockName);

impl LockOperation for TidyOperation<'_> {
    type Answer = ();

    fn lock(&self) -> &LockName {
        self.0
    }

    /// An id that belongs to no claim.
    fn id(&self) -> ClaimId {
        ClaimId::from_bytes([0; 16])
    }

    fn without_row(&self) -> Option<()> {
        Some(())
    }

    async fn run<T: Transaction>(&self, queue: Queue<'_, T>, _: Option<Entry>) -> Result<TransactionEnd<()>> {
        queue.tidy().await
    }
}
