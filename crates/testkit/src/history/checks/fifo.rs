//! Clients are served in the order in which they came.
//!
//! From outside, the order of the engine's queue is only known in part. The rule below raises no false alarm:
//!
//! - An attempt Y is known to stand in the queue from the moment at which somebody saw it there (`queued`), or from
//!   `queued_after` its call if the caller vouches that no claim is under way for longer, and no other task of its client was
//!   in its way.
//! - An attempt X of another client that was called after that moment stands behind Y, if no other task of its client
//!   wanted or held the lock when it was called, and none had given up since the client last held it: then it could not
//!   inherit an older place, and its token, fresh from the engine and not passed on within the client, is its own.
//! - Then Y's token must be lower than X's. Tokens tell the order of the grants, whenever the acquires return.
//!
//! Attempts that a fault touched are excused: a waiter that was cut off for longer than its wait lease loses its place.
//! Attempts that ended without the lock are left out: they may have been granted it while they gave up.

use std::time::Duration;

use super::{Excuses, Stats};
use crate::history::{Attempt, History, Point, Tag, Violation};

const CHECK: &str = "fifo";
/// The passes of one grant between tasks of one client are counted in the low bits of a token.
const PASSES: u64 = 0xff;

/// Checks that no attempt was granted before one of another client that was known to stand in the queue when it was
/// called.
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

/// When the attempt surely stood in the queue, if that was before it was served.
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

/// The last served of those that queued so far. Earlier attempts of a late comer's own client were over when it came, so
/// if one of them is the last, nobody was overtaken; `tokens` sees to it that theirs are lower.
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

    /// One takes the lock; two is seen in the queue; three comes later. The lines end before anybody is served.
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
    fn service_in_the_order_of_arrival_passes() {
        assert_eq!(check(&format!("{QUEUE}{TWO_FIRST}")).expect("orderly").judged, 1);
        let slack = Some(Duration::from_micros(1));
        assert_eq!(fifo(&orderly(200_000), slack, &Excuses::none()).expect("orderly").judged, 50_000);
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
    fn without_a_witness_the_order_is_only_known_by_the_callers_word() {
        let unseen = format!("{QUEUE}{THREE_FIRST}").replace("3.0 2.1 #1 a queued", "");
        assert_eq!(check(&unseen).expect("nobody saw it").judged, 0);
        let history = script(&unseen);
        assert!(fifo(&history, Some(Duration::from_millis(1_900)), &Excuses::none()).is_err());
        assert!(fifo(&history, Some(Duration::from_millis(2_100)), &Excuses::none()).is_ok());
    }

    #[test]
    fn tasks_of_one_client_and_what_they_pass_on_are_exempt() {
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
    fn a_fault_excuses_those_whose_place_it_may_have_cost() {
        let history = script(&format!(
            "{QUEUE}{THREE_FIRST}
             3.5 9.0 #0 - fault-began holder-pause
             4.5 9.0 #0 - fault-ended holder-pause"
        ));
        assert_eq!(fifo(&history, None, &Excuses::from_order(&history)).expect("excused").excused, 2);
    }
}
