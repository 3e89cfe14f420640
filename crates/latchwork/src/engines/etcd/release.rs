//! Releases a claim by deleting its key, and repeats releases that were not answered.

use super::Etcd;
use super::shared::Shared;
use crate::engine::{Claim, ClaimId, Released};
use crate::{Loss, Result};

impl Etcd {
    pub(super) async fn release_claim(&self, claim: &Claim) -> Result<Released> {
        // The watches end first: the client itself deletes the key.
        self.shared.update(claim.id, |claim_key| {
            (claim_key.waiter_watches, claim_key.holder_watch) = (None, None);
        });
        let Some(claim_key) = self.shared.find(claim.id) else { return Ok(Released::NotHeld) };
        let release = OutstandingRelease::new(&self.shared, claim.id);
        let connection = self.shared.connection().await?;
        let existed = self.delete_key(&connection, &claim_key).await?;
        release.answered();
        Ok(match existed {
            true => Released::Freed,
            false if self.find_loss(&connection, &claim_key).await == Loss::Revoked => Released::Revoked,
            false => Released::NotHeld,
        })
    }

    /// Deletes the keys of claims whose release was not answered. The core repeats a release only until the
    /// claim's lease would be over. Here the lease is kept alive for as long as the client holds or waits for
    /// any lock. A caller does not wait while another task already does this.
    pub(super) async fn retry_releases(&self) {
        let (Ok(_guard), Ok(connection)) =
            (self.shared.release_retry.try_lock(), self.shared.connection().await)
        else {
            return;
        };
        for (claim, claim_key) in self.shared.unanswered_releases() {
            // The remaining releases are left for later: each would wait for the same silent server.
            if self.delete_key(&connection, &claim_key).await.is_err() {
                return;
            }
            self.shared.forget(claim);
        }
    }
}

/// A release without a reply. Dropped before the reply, it is noted to be repeated.
struct OutstandingRelease<'a> {
    shared: &'a Shared,
    claim: Option<ClaimId>,
}

impl<'a> OutstandingRelease<'a> {
    fn new(shared: &'a Shared, claim: ClaimId) -> Self {
        Self { shared, claim: Some(claim) }
    }

    fn answered(mut self) {
        self.claim.take().into_iter().for_each(|claim| self.shared.forget(claim));
    }
}

impl Drop for OutstandingRelease<'_> {
    fn drop(&mut self) {
        self.shared.add_unanswered_releases(self.claim.take());
    }
}
