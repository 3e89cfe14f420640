//! Waiting where the server cannot push: how often a waiter polls, and which waiter acts on an expired lease.

use std::time::Duration;

use super::entry::{Entry, micros};
use super::row_engine::{RowEngine, name};
use super::row_store::RowStore;
use super::statement::{QueryResult, Statement};
use super::value::{SqlValue, corrupt_table};
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Valid, Verdict};

/// The first waiter polls after a quarter of the time for which the lock has been held so far, within these
/// limits. Each waiter also has the upper limit to notice that a lease has ended, before the waiter behind it
/// acts.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
const MAX_INTERVAL: Duration = Duration::from_millis(25);

/// Watchers of a cell have no order in which the rear ones could poll less often. So all of them slow down to
/// this.
const MAX_CELL_INTERVAL: Duration = Duration::from_millis(250);

/// The state of a claim in the queue when it polled. Times are on the database's clock.
pub(super) struct PolledClaim {
    now: i64,
    token: i64,
    /// The end of its lease, or of its entry as a waiter.
    end: i64,
    /// How long the newest holder has held the lock.
    held_for: Duration,
    /// The earliest end of a holder's lease, and the first holder. `None`: the lock has no holder.
    first: Option<(i64, Entry)>,
    holders: u32,
    ahead: u32,
    newest: i64,
}

impl<S: RowStore> RowEngine<S> {
    /// The state of a waiter that receives no notifications. Its heartbeat is a write and costs a commit, so
    /// it is sent only when it is due.
    pub(super) async fn poll(&self, claim: &Claim) -> Result<Option<Verdict>> {
        let answer = self.run(Statement::Poll, [name(claim), SqlValue::id(claim.id)]).await?;
        let Some(polled) = PolledClaim::read(&answer)? else { return Ok(None) };
        if polled.needs_heartbeat(claim) && self.send_heartbeat(claim).await?.changed == 0 {
            return Ok(None);
        }
        Ok(polled.verdict(claim))
    }
}

impl PolledClaim {
    /// `None`: the claim is not in the queue.
    pub(super) fn read(answer: &QueryResult) -> Result<Option<Self>> {
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let [now, token, end, first_end, held_since, holders, ahead, newest, first @ ..] = &row[..] else {
            return Err(corrupt_table());
        };
        let (now, is_held) = (now.as_int()?, *first_end != SqlValue::Null);
        let held_for = if is_held { now - held_since.as_int()? } else { 0 };
        let first = is_held.then(|| Ok((first_end.as_int()?, Entry::read(first)?))).transpose()?;
        Ok(Some(Self {
            now,
            token: token.as_int()?,
            end: end.as_int()?,
            held_for: micros_of(held_for),
            first,
            holders: holders.as_int()? as u32,
            ahead: ahead.as_int()? as u32,
            newest: newest.as_int()?,
        }))
    }

    /// The answer. `None`: this claim has to write, in a transaction.
    pub(super) fn verdict(&self, claim: &Claim) -> Option<Verdict> {
        if self.end <= self.now {
            return None;
        }
        if self.token != 0 {
            // The time left counts from the reply, and is less than the ttl.
            let valid = Valid::For(micros_of(self.end - self.now));
            return Some(Verdict::Granted(Grant { token: Some(self.token as u64), valid }));
        }
        let (end, holder) = self.first.as_ref()?;
        if holder.is_taken_over_by(claim) {
            return None;
        }
        let head_start = MAX_INTERVAL * self.ahead.saturating_sub(self.holders);
        let end = end.saturating_add(micros(head_start));
        if end <= self.now {
            return None;
        }
        let interval = poll_in(claim, self.held_for, self.ahead, self.holders);
        let mut busy = Busy::new(interval.min(micros_of(end - self.now) + Duration::from_millis(1)));
        busy.holder = Some(holder.describe(self.now));
        busy.position = Some(self.ahead);
        busy.floor = Some(self.newest as u64);
        Some(Verdict::Busy(busy))
    }

    /// Whether a third of the life of its entry has passed since the last heartbeat.
    pub(super) fn needs_heartbeat(&self, claim: &Claim) -> bool {
        self.token == 0 && micros_of(self.end - self.now) < claim.wait_lease * 2 / 3
    }
}

fn micros_of(span: i64) -> Duration {
    Duration::from_micros(span.max(0) as u64)
}

/// When a waiter without notifications polls again: the further back in the queue, the later.
pub(super) fn poll_in(claim: &Claim, held_for: Duration, ahead: u32, holders: u32) -> Duration {
    let first_waiter = (held_for / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
    let position = ahead.saturating_sub(holders).saturating_add(1);
    first_waiter.saturating_mul(position).min(claim.wait_lease / 3)
}

/// When a watcher without notifications polls a cell again.
pub(in crate::engines) fn poll_cell_in(unchanged_for: Duration) -> Duration {
    (unchanged_for / 4).clamp(MIN_INTERVAL, MAX_CELL_INTERVAL)
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

    /// A claim that waits behind a holder whose lease ends in `left` microseconds, and behind `ahead - 1`
    /// waiters.
    fn waiting(claim: &Claim, ahead: u32, left: i64) -> PolledClaim {
        let (now, first_end) = (1_000 * SECOND, 1_000 * SECOND + left);
        let mut holder = Entry::waiting(claim, Vec::new(), 1, now);
        (holder.id, holder.token) = (crate::engine::ClaimId::from_bytes([7; 16]), 7);
        let held_for = Duration::from_secs(1);
        PolledClaim {
            now,
            token: 0,
            end: now + SECOND,
            held_for,
            first: Some((first_end, holder)),
            holders: 1,
            ahead,
            newest: 7,
        }
    }

    fn busy(polled: &PolledClaim, claim: &Claim) -> Option<Busy> {
        match polled.verdict(claim) {
            Some(Verdict::Busy(busy)) => Some(busy),
            _ => None,
        }
    }

    #[test]
    fn waiters_further_back_poll_less_often_but_keep_their_entries() {
        let claim = claim();
        let spans = [1, 2, 10, 1_000].map(|ahead| busy(&waiting(&claim, ahead, 20 * SECOND), &claim));
        let spans = spans.map(|busy| busy.expect("it waits").again_in.as_millis());
        assert_eq!(spans, [25, 50, 250, 1_000]);
        assert_eq!(poll_in(&claim, Duration::ZERO, 1, 1).as_millis(), 2, "a lock that changes hands quickly");
    }

    #[test]
    fn the_first_waiter_acts_on_an_expired_lease_and_then_the_next() {
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
    fn a_grant_lasts_for_the_time_left_and_an_expired_one_is_not_reported() {
        let claim = claim();
        let mut polled = waiting(&claim, 0, SECOND);
        (polled.token, polled.end) = (9, polled.now + 5);
        let Some(Verdict::Granted(grant)) = polled.verdict(&claim) else { panic!("granted") };
        assert_eq!((grant.token, grant.valid), (Some(9), Valid::For(Duration::from_micros(5))));
        polled.end = polled.now;
        assert!(polled.verdict(&claim).is_none());
    }

    #[test]
    fn a_heartbeat_is_due_after_a_third_of_the_wait_lease() {
        let claim = claim();
        let mut polled = waiting(&claim, 1, SECOND);
        for (left, is_due) in [(3 * SECOND, false), (2 * SECOND, false), (2 * SECOND - 1, true), (-1, true)] {
            polled.end = polled.now + left;
            assert_eq!(polled.needs_heartbeat(&claim), is_due, "{left}");
        }
    }
}
