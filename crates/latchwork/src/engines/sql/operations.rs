//! What can be done in one transaction on one lock.

use std::future::Future;

use super::database::Transaction;
use super::entry::Entry;
use super::queue::{Outcome, Queue};
use crate::engine::{Claim, ClaimId, Released, Revoke, Revoked, Verdict};
use crate::{LockName, Result};

/// Something to do on one lock.
pub(super) trait Work: Sync {
    type Answer: Send;

    fn lock(&self) -> &LockName;

    /// The claim it is about.
    fn id(&self) -> ClaimId;

    /// The answer for a lock that was never used; `None`: then its row is made.
    fn never_used(&self) -> Option<Self::Answer>;

    fn on<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        mine: Option<Entry>,
    ) -> impl Future<Output = Result<Outcome<Self::Answer>>> + Send;
}

pub(super) struct Claiming<'a> {
    pub(super) claim: &'a Claim,
    /// Where its client hears of it.
    pub(super) channel: Option<&'a [u8]>,
}

impl Work for Claiming<'_> {
    /// Or why it is refused.
    type Answer = Result<Verdict>;

    fn lock(&self) -> &LockName {
        &self.claim.name
    }

    fn id(&self) -> ClaimId {
        self.claim.id
    }

    fn never_used(&self) -> Option<Self::Answer> {
        None
    }

    async fn on<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        mine: Option<Entry>,
    ) -> Result<Outcome<Self::Answer>> {
        match queue.check_number(self.claim) {
            Ok(()) => Ok(queue.claim(self.claim, mine, self.channel).await?.map(Ok)),
            Err(refused) => Ok(Outcome::Nothing(Err(refused))),
        }
    }
}

pub(super) struct Releasing<'a>(pub(super) &'a Claim);

impl Work for Releasing<'_> {
    type Answer = Released;

    fn lock(&self) -> &LockName {
        &self.0.name
    }

    fn id(&self) -> ClaimId {
        self.0.id
    }

    fn never_used(&self) -> Option<Released> {
        Some(Released::NotHeld)
    }

    async fn on<T: Transaction>(
        &self,
        queue: Queue<'_, T>,
        mine: Option<Entry>,
    ) -> Result<Outcome<Released>> {
        queue.release(self.0, mine).await
    }
}

pub(super) struct Revoking<'a> {
    pub(super) lock: &'a LockName,
    pub(super) id: ClaimId,
    pub(super) how: Revoke,
}

impl Work for Revoking<'_> {
    type Answer = Revoked;

    fn lock(&self) -> &LockName {
        self.lock
    }

    fn id(&self) -> ClaimId {
        self.id
    }

    fn never_used(&self) -> Option<Revoked> {
        Some(Revoked::NotHeld)
    }

    async fn on<T: Transaction>(&self, queue: Queue<'_, T>, mine: Option<Entry>) -> Result<Outcome<Revoked>> {
        queue.revoke(self.id, mine, self.how).await
    }
}

/// Removes dead entries from a queue.
pub(super) struct Tidying<'a>(pub(super) &'a LockName);

impl Work for Tidying<'_> {
    type Answer = ();

    fn lock(&self) -> &LockName {
        self.0
    }

    /// An id that belongs to no claim.
    fn id(&self) -> ClaimId {
        ClaimId::from_bytes([0; 16])
    }

    fn never_used(&self) -> Option<()> {
        Some(())
    }

    async fn on<T: Transaction>(&self, queue: Queue<'_, T>, _: Option<Entry>) -> Result<Outcome<()>> {
        queue.tidy().await
    }
}
