//! Claims that may be lost, as pushed by the server. The keeper renews them at once.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::engine::ClaimId;
use crate::poison::lock_ignoring_poison;

/// A queue of claim ids with one reader.
#[derive(Default)]
pub(super) struct LossHints {
    claims: Mutex<Vec<ClaimId>>,
    bell: Notify,
}

impl LossHints {
    /// Adds a claim that may be lost.
    pub(super) fn tell(&self, claim: ClaimId) {
        lock_ignoring_poison(&self.claims).push(claim);
        self.bell.notify_one();
    }

    /// Waits for a hint, and takes all hints.
    pub(super) async fn take(&self) -> Vec<ClaimId> {
        loop {
            let claims = std::mem::take(&mut *lock_ignoring_poison(&self.claims));
            if !claims.is_empty() {
                return claims;
            }
            self.bell.notified().await;
        }
    }
}
