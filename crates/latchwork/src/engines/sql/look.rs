//! Waiting where the server tells nobody: how often to look, and whose turn it is to clear up.

use std::time::Duration;

use super::database::{Answer, Value};
use super::entry::{Entry, int, micros, strange};
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Valid, Verdict};

/// The next in line looks after a quarter of the time that the holder has had so far, within these. The latter is also how long
/// each in line has to notice that a lease is over, before those behind it see to it.
const SOONEST: Duration = Duration::from_millis(2);
const LATEST: Duration = Duration::from_millis(25);

/// How a claim in the queue stood when it looked, on the database's clock.
pub(super) struct Look {
    now: i64,
    token: i64,
    /// Of its lease, or of its place.
    end: i64,
    /// How long the newest holder has had the lock.
    held_for: Duration,
    /// The first end of a holder's lease, and the first holder. None may be left.
    first: Option<(i64, Entry)>,
    holders: u32,
    ahead: u32,
    newest: i64,
}

impl Look {
    /// `None`: the claim is not in the queue.
    pub(super) fn read(answer: &Answer) -> Result<Option<Self>> {
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let [now, token, end, first_end, last_begin, holders, ahead, newest, first @ ..] = &row[..] else {
            return Err(strange());
        };
        let (now, is_held) = (int(now)?, *first_end != Value::Null);
        let held_for = if is_held { now - int(last_begin)? } else { 0 };
        let first = is_held.then(|| Ok((int(first_end)?, Entry::read(first)?))).transpose()?;
        Ok(Some(Self {
            now,
            token: int(token)?,
            end: int(end)?,
            held_for: micros_of(held_for),
            first,
            holders: int(holders)? as u32,
            ahead: int(ahead)? as u32,
            newest: int(newest)?,
        }))
    }

    /// The answer; `None`: there is something to be done, in a transaction.
    pub(super) fn verdict(&self, claim: &Claim) -> Option<Verdict> {
        if self.end <= self.now {
            return None;
        }
        if self.token != 0 {
            // What is left of it counts from when it is told, less than what was asked for.
            let valid = Valid::For(micros_of(self.end - self.now));
            return Some(Verdict::Granted(Grant { token: Some(self.token as u64), valid }));
        }
        let (end, holder) = self.first.as_ref()?;
        if holder.is_taken_over_by(claim) {
            return None;
        }
        let in_order = LATEST * self.ahead.saturating_sub(self.holders);
        let end = end.saturating_add(micros(in_order));
        if end <= self.now {
            return None;
        }
        let soon = again_in(claim, self.held_for, self.ahead, self.holders);
        let mut busy = Busy::new(soon.min(micros_of(end - self.now) + Duration::from_millis(1)));
        busy.holder = Some(holder.describe(self.now));
        busy.position = Some(self.ahead);
        busy.floor = Some(self.newest as u64);
        Some(Verdict::Busy(busy))
    }

    /// Whether it has waited for long enough to give a sign of life again.
    pub(super) fn is_fading(&self, claim: &Claim) -> bool {
        self.token == 0 && micros_of(self.end - self.now) < claim.wait_lease * 2 / 3
    }
}

fn micros_of(span: i64) -> Duration {
    Duration::from_micros(span.max(0) as u64)
}

/// When a waiter looks again that nobody tells: the further back it stands, the later.
pub(super) fn again_in(claim: &Claim, held_for: Duration, ahead: u32, holders: u32) -> Duration {
    let next_in_line = (held_for / 4).clamp(SOONEST, LATEST);
    let place = ahead.saturating_sub(holders).saturating_add(1);
    next_in_line.saturating_mul(place).min(claim.wait_lease / 3)
}
