//! Waiting where the server tells nobody: how often to look, and whose turn it is to clear up.

use std::time::Duration;

use super::database::{Answer, Value};
use super::entry::{int, strange};
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Valid, Verdict};

/// The next in line looks after a quarter of the time that the holder has had so far, within these.
const SOONEST: Duration = Duration::from_millis(2);
const LATEST: Duration = Duration::from_millis(25);

/// How a claim in the queue stood when it looked.
pub(super) struct Look {
    token: i64,
    /// Of its lease, or of its place.
    left: i64,
    /// Of the first lease of a holder, if there is one.
    first_end: Option<i64>,
    held_for: Duration,
    holders: u32,
    ahead: u32,
    newest: i64,
}

impl Look {
    /// `None`: the claim is not in the queue.
    pub(super) fn read(answer: &Answer) -> Result<Option<Self>> {
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let [token, left, first_end, held_for, holders, ahead, newest] = &row[..] else {
            return Err(strange());
        };
        let of_holder = |value: &Value| (*value != Value::Null).then(|| int(value)).transpose();
        Ok(Some(Self {
            token: int(token)?,
            left: int(left)?,
            first_end: of_holder(first_end)?,
            held_for: Duration::from_micros(of_holder(held_for)?.unwrap_or_default().max(0) as u64),
            holders: int(holders)? as u32,
            ahead: int(ahead)? as u32,
            newest: int(newest)?,
        }))
    }

    /// The answer; `None`: there is something to be done, in a transaction.
    pub(super) fn verdict(&self, claim: &Claim) -> Option<Verdict> {
        if self.left <= 0 {
            return None;
        }
        if self.token != 0 {
            // What is left of it counts from when it is told, less than what was asked for.
            let valid = Valid::For(Duration::from_micros(self.left as u64));
            return Some(Verdict::Granted(Grant { token: Some(self.token as u64), valid }));
        }
        let end = self.first_end?.checked_add(self.grace())?;
        let end = u64::try_from(end).ok().filter(|end| *end > 0)?;
        let soon = again_in(claim, self.held_for, self.ahead, self.holders);
        let mut busy = Busy::new(soon.min(Duration::from_micros(end) + Duration::from_millis(1)));
        busy.position = Some(self.ahead);
        busy.floor = Some(self.newest as u64);
        Some(Verdict::Busy(busy))
    }

    /// Whether it has waited for long enough to give a sign of life again.
    pub(super) fn is_fading(&self, claim: &Claim) -> bool {
        self.token == 0 && Duration::from_micros(self.left.max(0) as u64) < claim.wait_lease * 2 / 3
    }

    /// How long those who stand before this one have to notice that a lease is over, one after the other.
    fn grace(&self) -> i64 {
        i64::from(self.ahead.saturating_sub(self.holders)) * LATEST.as_micros() as i64
    }
}

/// When a waiter looks again that nobody tells: the further back it stands, the later.
pub(super) fn again_in(claim: &Claim, held_for: Duration, ahead: u32, holders: u32) -> Duration {
    let next_in_line = (held_for / 4).clamp(SOONEST, LATEST);
    let place = ahead.saturating_sub(holders).saturating_add(1);
    next_in_line.saturating_mul(place).min(claim.wait_lease / 3)
}
