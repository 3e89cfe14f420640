//! Waiting for a notification: the lock was handed over, or it may be free.

use super::Redis;
use super::claim::wait_lease;
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Valid, Wake};
use crate::engines::waiter_table::Notification;

impl Redis {
    pub(super) async fn next_wake(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        loop {
            match self.session.waiters.next(claim.id).await {
                Notification::Recheck => return Ok(Wake::Recheck),
                // The server counts the wait lease from the newest claim it answered, and so does the core.
                Notification::Granted(token) if Some(token) > busy.floor => {
                    self.session.waiters.forget(claim.id);
                    let grant = Grant { token: Some(token), valid: Valid::For(wait_lease(claim)) };
                    return Ok(Wake::Granted(grant));
                }
                // Read after a pause of this process: the lock was granted to other claims since.
                Notification::Granted(_) => {}
            }
        }
    }
}
