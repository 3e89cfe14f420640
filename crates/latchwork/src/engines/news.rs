//! Claims of which the server said something that nobody asked for.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::engine::ClaimId;
use crate::locked::locked;

/// What the keeper has to look into.
#[derive(Default)]
pub(super) struct News {
    claims: Mutex<Vec<ClaimId>>,
    bell: Notify,
}

impl News {
    pub(super) fn tell(&self, claim: ClaimId) {
        locked(&self.claims).push(claim);
        self.bell.notify_one();
    }

    /// Waits until there is something, and takes all of it.
    pub(super) async fn take(&self) -> Vec<ClaimId> {
        loop {
            let claims = std::mem::take(&mut *locked(&self.claims));
            if !claims.is_empty() {
                return claims;
            }
            self.bell.notified().await;
        }
    }
}
