//! The verb `wait`, and the heartbeats of waiters that receive notifications.

use std::time::Duration;

use super::entry::{hand_over, micros};
use super::row_engine::{RowEngine, name};
use super::row_store::RowStore;
use super::statement::{QueryResult, Statement};
use super::value::SqlValue;
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Valid, Verdict, Wake};
use crate::engines::waiter_table::Notification;

impl<S: RowStore> RowEngine<S> {
    /// Waits for a notification.
    pub(super) async fn wait_for_notification(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        loop {
            match self.store.next_notification(claim.id).await {
                Notification::Recheck => return Ok(Wake::Recheck),
                // The database counts the lease from the hand-over, which is later than the newest claim.
                Notification::Granted(token) if Some(token) > busy.floor => {
                    self.store.forget(claim.id);
                    let valid = Valid::For(hand_over(claim));
                    return Ok(Wake::Granted(Grant { token: Some(token), valid }));
                }
                Notification::Granted(_) => {}
            }
        }
    }

    /// Sends a heartbeat and returns the position. `None`: the claim does not wait any more, or the lease
    /// ahead of it may have ended.
    pub(super) async fn heartbeat(&self, claim: &Claim) -> Result<Option<Verdict>> {
        let answer = self.send_heartbeat(claim).await?;
        let Some([_ticket, SqlValue::Int(left @ 1..), ahead, token]) = answer.rows.first().map(Vec::as_slice)
        else {
            return Ok(None);
        };
        let mut busy = Busy::new(recheck_in(claim, Some(Duration::from_micros(*left as u64))));
        busy.position = Some(ahead.as_int()? as u32);
        busy.floor = Some(token.as_int()? as u64);
        Ok(Some(Verdict::Busy(busy)))
    }

    pub(super) async fn send_heartbeat(&self, claim: &Claim) -> Result<QueryResult> {
        let values = [name(claim), SqlValue::id(claim.id), SqlValue::Int(micros(claim.wait_lease))];
        self.run(Statement::Heartbeat, values).await
    }
}

/// When a waiter that receives notifications repeats its claim: three times in the life of its entry, and
/// when the lease ahead of it ends.
pub(super) fn recheck_in(claim: &Claim, first_end: Option<Duration>) -> Duration {
    let heartbeat = claim.wait_lease / 3;
    first_end.map_or(heartbeat, |end| heartbeat.min(end + Duration::from_millis(1)))
}
