//! Waiting where the server tells nobody: how often to look, and whose turn it is to clear up.

use std::time::Duration;

use super::database::{QueryResult, Value};
use super::entry::{Entry, int, micros, protocol_error};
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Valid, Verdict};

/// The next in line looks after a quarter of the time that the holder has had so far, within these. The latter is also how long
/// each in line has to notice that a lease is over, before those behind it see to it.
const SOONEST: Duration = Duration::from_millis(2);
const LATEST: Duration = Duration::from_millis(25);

/// Watchers of cells stand in no line, in which those further back look more rarely: all of them look this rarely in the end.
const LATEST_AT_CELLS: Duration = Duration::from_millis(250);

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
    pub(super) fn read(answer: &QueryResult) -> Result<Option<Self>> {
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let [now, token, end, first_end, last_begin, holders, ahead, newest, first @ ..] = &row[..] else {
            return Err(protocol_error());
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

/// When a watcher looks again that nobody tells, at a cell that has not changed for so long.
pub(in crate::engines) fn look_at_cell_in(unchanged_for: Duration) -> Duration {
    (unchanged_for / 4).clamp(SOONEST, LATEST_AT_CELLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;

    const SECOND: i64 = 1_000_000;

    fn claim() -> Claim {
        let mut claim = Claim::new(LockName::new("x").expect("a good name"), Duration::from_secs(30));
        claim.wait_lease = Duration::from_secs(3);
        claim
    }

    /// One that waits behind a holder whose lease ends in `left` microseconds, and `ahead - 1` others.
    fn waiting(claim: &Claim, ahead: u32, left: i64) -> Look {
        let (now, ended) = (1_000 * SECOND, 1_000 * SECOND + left);
        let mut holder = Entry::waiting(claim, Vec::new(), 1, now);
        (holder.id, holder.token) = (crate::engine::ClaimId::from_bytes([7; 16]), 7);
        let held_for = Duration::from_secs(1);
        Look {
            now,
            token: 0,
            end: now + SECOND,
            held_for,
            first: Some((ended, holder)),
            holders: 1,
            ahead,
            newest: 7,
        }
    }

    fn busy(look: &Look, claim: &Claim) -> Option<Busy> {
        match look.verdict(claim) {
            Some(Verdict::Busy(busy)) => Some(busy),
            _ => None,
        }
    }

    #[test]
    fn the_further_back_the_more_rarely_and_never_too_rarely_to_stay() {
        let claim = claim();
        let spans = [1, 2, 10, 1_000].map(|ahead| busy(&waiting(&claim, ahead, 20 * SECOND), &claim));
        let spans = spans.map(|busy| busy.expect("it waits").again_in.as_millis());
        assert_eq!(spans, [25, 50, 250, 1_000]);
        assert_eq!(
            again_in(&claim, Duration::ZERO, 1, 1).as_millis(),
            2,
            "a lock that changes hands quickly"
        );
    }

    #[test]
    fn a_lease_that_is_over_is_seen_to_by_the_first_in_line_and_then_by_the_next() {
        let claim = claim();
        for (ahead, late, is_mine) in
            [(1, -1, true), (2, -1, false), (2, -25_001, true), (3, -25_001, false), (3, -50_001, true)]
        {
            let answer = busy(&waiting(&claim, ahead, late), &claim);
            assert_eq!(answer.is_none(), is_mine, "{ahead} ahead, {late} us");
            assert!(answer.is_none_or(|busy| busy.again_in <= Duration::from_millis(51)));
        }
    }

    #[test]
    fn a_grant_counts_from_what_is_left_of_it_and_one_that_is_over_is_none() {
        let claim = claim();
        let mut look = waiting(&claim, 0, SECOND);
        (look.token, look.end) = (9, look.now + 5);
        let Some(Verdict::Granted(grant)) = look.verdict(&claim) else { panic!("granted") };
        assert_eq!((grant.token, grant.valid), (Some(9), Valid::For(Duration::from_micros(5))));
        look.end = look.now;
        assert!(look.verdict(&claim).is_none());
    }

    #[test]
    fn a_sign_of_life_is_due_after_a_third_of_the_place() {
        let claim = claim();
        let mut look = waiting(&claim, 1, SECOND);
        for (left, is_due) in [(3 * SECOND, false), (2 * SECOND, false), (2 * SECOND - 1, true), (-1, true)] {
            look.end = look.now + left;
            assert_eq!(look.is_fading(&claim), is_due, "{left}");
        }
    }
}
