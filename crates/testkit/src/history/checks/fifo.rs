//! Clients are granted the lock in the order of their arrival.
//!
//! From outside, the order of the engine's queue is only known in part. The rule below raises no false alarm:
//!
//! - An attempt Y is known to be in the queue from the time at which a witness saw it there (`queued`), or
//!   from `queued_after` its call if the caller guarantees that no claim is under way for longer and that no
//!   other task of its client was ahead of it.
//! - An attempt X of another client that was called after that time is behind Y, if no other task of its
//!   client waited for or held the lock at the time of the call, and none had given up since the client last
//!   held it. Then X could not inherit an older place, and its token is its own: fresh from the engine and
//!   not passed on within the client.
//! - Then Y's token must be lower than X's. Tokens tell the order of the grants, whenever the acquires
//!   return.
//!
//! Attempts under a fault are excused: a waiter that was cut off for longer than its wait lease loses its
//! place. Attempts that ended without the lock are left out: the lock may have been granted to them while
//! they gave up.

use std::time::Duration;

use super::{Excuses, Stats};
use crate::history::{Attempt, History, Point, Tag, Violation};

const CHECK: &str = "fifo";
/// The low bits of a token count the handoffs of one grant between tasks of one client.
const PASSES: u64 = 0xff;

/// Checks that no attempt was granted before one of another client that was known to be in the queue at the
/// time of the call.
///
/// # Errors
/// The attempt that was overtaken, and the one that overtook it.
pub fn fifo(
    history: &History,
    queued_after: Option<Duration>,
    excuses: &Excuses,
) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    for (_, lock) in history.locks() {
        let (mut queued, mut called) = (Vec::new(), Vec::new());
        for attempt in lock.attempts.iter().map(|index| &history.attempts()[*index]) {
            let Some(served) = Served::of(attempt, history) else { continue };
            if excuses.cover(attempt.invoked, served.acquired) {
                stats.excused += 1;
                continue;
            }
            if let Some(since) = known_to_queue(attempt, served.acquired, queued_after) {
                queued.push((since, served));
            }
            called.push((attempt.invoked, served));
        }
        queued.sort_by_key(|(since, _)| *since);
        stats.judged += queued.len();
        let (mut queued, mut ahead) = (queued.into_iter().peekable(), LastServed::default());
        for (invoked, late) in called {
            while let Some((_, early)) = queued.next_if(|(since, _)| *since < invoked) {
                ahead.add(early);
            }
            if let Some(early) = ahead.served_after(&late) {
                return Err(overtaken(history, &early, &late));
            }
        }
    }
    Ok(stats)
}

/// When the attempt was certainly in the queue, if that was before its grant.
pub(super) fn known_to_queue(
    attempt: &Attempt,
    acquired: Point,
    queued_after: Option<Duration>,
) -> Option<Point> {
    let vouched = queued_after
        .filter(|_| attempt.alone)
        .map(|span| Point::before_events_at(attempt.invoked.at.after(span)));
    let since = attempt.queued.into_iter().chain(vouched).min()?;
    (since < acquired).then_some(since)
}

/// An attempt that got a grant of its own from the engine.
#[derive(Clone, Copy)]
struct Served {
    who: Tag,
    token: u64,
    invoked: Point,
    acquired: Point,
}

impl Served {
    fn of(attempt: &Attempt, history: &History) -> Option<Self> {
        let hold = &history.holds()[attempt.hold?];
        let token = hold.token.filter(|token| attempt.alone && token & PASSES == 0)?;
        Some(Self { who: attempt.who, token, invoked: attempt.invoked, acquired: hold.start })
    }
}

/// The last granted of the attempts that have queued so far. Earlier attempts of a later attempt's own client
/// had ended at its call; so if one of them is the last, no attempt was overtaken. `tokens` checks that their
/// tokens are lower.
#[derive(Default)]
struct LastServed(Option<Served>);

impl LastServed {
    fn add(&mut self, new: Served) {
        if self.0.is_none_or(|last| new.token > last.token) {
            self.0 = Some(new);
        }
    }

    fn served_after(&self, late: &Served) -> Option<Served> {
        self.0.filter(|last| last.who != late.who && last.token > late.token)
    }
}

fn overtaken(history: &History, early: &Served, late: &Served) -> Violation {
    let (one, other) = (early.who, late.who);
    let waited = late.invoked.at.since(early.invoked.at);
    let lock = history.events()[late.invoked.index].lock.as_ref();
    let says = format!(
        "{other} was granted lock {:?} before {one}, which stood in the queue when {other} came {waited:?} later",
        lock.map_or("?", |lock| lock.as_str())
    );
    Violation::new(CHECK, history, [early.invoked, late.invoked], says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{orderly, script};

    /// One client holds the lock; a second is seen in the queue; a third arrives later. The lines end before
    /// the first grant.
    const QUEUE: &str = "1.0 1.1 #1 a invoked exclusive
         1.0 1.1 #1 a acquired token=256 until=99.0
         2.0 2.1 #1 a invoked exclusive
         3.0 2.1 #1 a queued
         4.0 3.1 #1 a invoked exclusive
         5.0 1.1 #1 a release\n";
    const TWO_FIRST: &str = "6.0 2.1 #1 a acquired token=512 until=99.0
         7.0 2.1 #1 a release
         8.0 3.1 #1 a acquired token=768 until=99.0";
    const THREE_FIRST: &str = "6.0 3.1 #1 a acquired token=512 until=99.0
         7.0 3.1 #1 a release
         8.0 2.1 #1 a acquired token=768 until=99.0";

    fn check(lines: &str) -> Result<Stats, Violation> {
        fifo(&script(lines), None, &Excuses::none())
    }

    #[test]
    fn grants_in_the_order_of_arrival_pass() {
        assert_eq!(check(&format!("{QUEUE}{TWO_FIRST}")).expect("an orderly history passes").judged, 1);
        let slack = Some(Duration::from_micros(1));
        assert_eq!(
            fifo(&orderly(200_000), slack, &Excuses::none()).expect("an orderly history passes").judged,
            50_000
        );
    }

    #[test]
    fn overtaking_is_found() {
        let text = check(&format!("{QUEUE}{THREE_FIRST}")).expect_err("overtaken").to_string();
        let says =
            "fifo: 3.1 was granted lock \"a\" before 2.1, which stood in the queue when 3.1 came 2s later";
        assert!(text.starts_with(says), "{text}");
        assert!(text.contains(" -> 4.000000000 3.1 #1 a invoked"), "{text}");
    }

    #[test]
    fn the_order_without_a_witness_depends_on_the_callers_guarantee() {
        let unseen = format!("{QUEUE}{THREE_FIRST}").replace("3.0 2.1 #1 a queued", "");
        assert_eq!(check(&unseen).expect("no witness saw it").judged, 0);
        let history = script(&unseen);
        assert!(fifo(&history, Some(Duration::from_millis(1_900)), &Excuses::none()).is_err());
        assert!(fifo(&history, Some(Duration::from_millis(2_100)), &Excuses::none()).is_ok());
    }

    #[test]
    fn tasks_of_one_client_and_their_handoffs_are_exempt() {
        let same_client = format!("{QUEUE}{THREE_FIRST}").replace("3.1 #1", "2.1 #2");
        check(&same_client).expect("they queue among themselves");
        let went_back = "2.0 2.1 #1 a invoked exclusive
             3.0 2.1 #1 a queued
             6.0 2.1 #1 a acquired token=768 until=99.0
             7.0 2.1 #1 a release
             8.0 2.1 #2 a invoked exclusive
             9.0 2.1 #2 a acquired token=512 until=99.0";
        check(went_back).expect("its own earlier hold; that the token went back is for another check");
        let passed = format!("{QUEUE}{THREE_FIRST}").replace("token=512", "token=257");
        check(&passed).expect("passed on, not granted");
        let inherited =
            format!("1.5 3.1 #9 a invoked exclusive\n1.6 3.1 #9 a cancelled until=9.0\n{QUEUE}{THREE_FIRST}");
        check(&inherited).expect("the place of a task that left may be taken over");
    }

    #[test]
    fn a_fault_excuses_attempts_whose_place_it_may_have_cost() {
        let history = script(&format!(
            "{QUEUE}{THREE_FIRST}
             3.5 9.0 #0 - fault-began holder-pause
             4.5 9.0 #0 - fault-ended holder-pause"
        ));
        assert_eq!(
            fifo(&history, None, &Excuses::from_order(&history)).expect("the fault excuses it").excused,
            2
        );
    }
}
