//! Once faults are over, every attempt is answered, and no lock is idle while it is wanted.

use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::engine::Mode;

use super::Stats;
use crate::history::{Attempt, History, Point, Violation, What};

const CHECK: &str = "progress";

/// Checks that, from the end of the last fault on, every attempt was answered within `answer_within`, and
/// that no lock was wanted for longer than `idle_at_most` without being held, nor a semaphore with permits
/// left.
///
/// Attempts of killed processes do not count. While an attempt with an unknown outcome may count as a holder,
/// the lock is not idle.
///
/// # Errors
/// The attempt that got no answer in time, or the two events between which the lock was idle.
pub fn progress(
    history: &History,
    answer_within: Duration,
    idle_at_most: Duration,
) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    let calm = calm_since(history);
    for attempt in history.attempts().iter().filter(|attempt| attempt.ended() > calm) {
        stats.judged += 1;
        let waited = attempt.ended().at.min(history.end()).since(attempt.invoked.at.max(calm.at));
        stats.longest_wait = stats.longest_wait.max(waited);
        if waited > answer_within {
            return Err(unanswered(history, attempt, waited));
        }
    }
    for (name, lock) in history.locks() {
        let attempts: Vec<_> = lock.attempts.iter().map(|index| &history.attempts()[*index]).collect();
        let places = places(&attempts);
        for Gap { from, to } in gaps(history, &attempts, places, calm) {
            let idle = to.at.since(from.at);
            stats.longest_idle = stats.longest_idle.max(idle);
            if idle > idle_at_most {
                let what = if places > 1 { "a permit of lock" } else { "lock" };
                let says = format!("{what} {name:?} was wanted and held by nobody for {idle:?}");
                return Err(Violation::new(CHECK, history, [from, to], says));
            }
        }
    }
    Ok(stats)
}

/// The end of the last fault; the start if there was none; never if one is still active.
fn calm_since(history: &History) -> Point {
    let (mut running, mut calm) = (0_i64, Point::before_events_at(Moment::from_micros(0)));
    for (index, event) in history.events().iter().enumerate() {
        match event.what {
            What::FaultBegan(_) => running += 1,
            What::FaultEnded(_) => {
                running -= 1;
                calm = Point { at: event.at, index };
            }
            _ => {}
        }
    }
    if running > 0 { Point::NEVER } else { calm }
}

/// A time in which a lock was wanted and not held.
struct Gap {
    from: Point,
    to: Point,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Held,
    Left,
    Wanted,
    GivenUp,
}

/// The number of clients that can hold the lock at once: all permits, if no attempt has another mode.
fn places(attempts: &[&Attempt]) -> i64 {
    let permits = attempts.iter().map(|attempt| match attempt.mode {
        Mode::Permit { of } => i64::from(of),
        _ => 1,
    });
    permits.min().unwrap_or(1)
}

/// Sweeps over every event that changes whether a lock is wanted or held.
fn gaps(history: &History, attempts: &[&Attempt], places: i64, calm: Point) -> Vec<Gap> {
    let mut changes = Vec::new();
    for attempt in attempts {
        changes.push((attempt.invoked, Change::Wanted));
        changes.push((attempt.ended(), Change::GivenUp));
        let ghost = attempt.ghost_until.map(Point::before_events_at).zip(attempt.answered);
        let ghost = ghost.map(|(until, since)| (since, until.max(since)));
        let hold = attempt.hold.map(|hold| (history.holds()[hold].start, history.holds()[hold].end));
        for (from, to) in [ghost, hold].into_iter().flatten() {
            changes.push((from, Change::Held));
            changes.push((to, Change::Left));
        }
    }
    let last = Point { at: history.end(), index: history.events().len().saturating_sub(1) };
    changes.sort_unstable();
    let (mut wanted, mut held, mut since, mut gaps) = (0_i64, 0_i64, None::<Point>, Vec::new());
    for (at, change) in changes {
        match change {
            Change::Wanted => wanted += 1,
            Change::GivenUp => wanted -= 1,
            Change::Held => held += 1,
            Change::Left => held -= 1,
        }
        let idle = wanted > 0 && held < places;
        since = match since {
            Some(from) if !idle => {
                gaps.push(Gap { from: from.max(calm), to: at.min(last).max(calm) });
                None
            }
            None if idle => Some(at),
            same => same,
        };
    }
    gaps
}

fn unanswered(history: &History, attempt: &Attempt, waited: Duration) -> Violation {
    let (who, lock) = (attempt.who, &attempt.lock);
    let end = Point { at: history.end(), index: history.events().len() - 1 };
    let says = match attempt.answered {
        Some(_) => format!("{who} waited {waited:?} for an answer about lock {lock:?}"),
        None => format!("{who} has waited {waited:?} for an answer about lock {lock:?} and has none"),
    };
    Violation::new(CHECK, history, [attempt.invoked, attempt.ended().min(end)], says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{orderly, script};

    const SECOND: Duration = Duration::from_secs(1);

    fn check(lines: &str) -> Result<Stats, Violation> {
        progress(&script(lines), 5 * SECOND, 2 * SECOND)
    }

    #[test]
    fn answers_in_time_pass() {
        let stats = check(
            "1.0 1.1 #1 a invoked exclusive
             2.0 1.1 #1 a acquired token=1 until=99.0
             3.0 2.1 #1 a invoked exclusive
             6.0 1.1 #1 a release
             7.0 2.1 #1 a acquired token=2 until=99.0
             8.0 3.1 #1 a invoked exclusive
             9.0 3.0 #0 - killed
             40.0 2.1 #1 a release",
        );
        let stats = stats.expect("an orderly history passes");
        assert_eq!((stats.judged, stats.longest_wait, stats.longest_idle), (3, 4 * SECOND, SECOND));
        assert_eq!(
            progress(&orderly(200_000), SECOND, SECOND).expect("an orderly history passes").judged,
            50_000
        );
    }

    #[test]
    fn an_attempt_without_an_answer_is_found() {
        let text = check(
            "1.0 1.1 #1 a invoked exclusive
             1.0 1.1 #1 a acquired token=1 until=99.0
             2.0 2.1 #1 a invoked exclusive
             8.0 1.1 #2 b queued",
        );
        let text = text.expect_err("no answer").to_string();
        assert!(
            text.starts_with("progress: 2.1 has waited 6s for an answer about lock \"a\" and has none"),
            "{text}"
        );
        assert!(text.contains(" -> 2.000000000 2.1 #1 a invoked"), "{text}");
    }

    #[test]
    fn a_late_answer_is_found_even_if_it_is_an_error() {
        let text =
            check("1.0 1.1 #1 a invoked exclusive\n7.0 1.1 #1 a failed").expect_err("late").to_string();
        assert!(text.starts_with("progress: 1.1 waited 6s for an answer about lock \"a\"\n"), "{text}");
    }

    #[test]
    fn a_lock_that_is_idle_while_it_is_wanted_is_found() {
        let text = check(
            "1.0 1.1 #1 a invoked exclusive
             1.0 1.1 #1 a acquired token=1 until=99.0
             2.0 2.1 #1 a invoked exclusive
             3.0 1.0 #0 - killed
             6.0 2.1 #1 a acquired token=2 until=99.0",
        );
        let text = text.expect_err("idle").to_string();
        assert!(text.starts_with("progress: lock \"a\" was wanted and held by nobody for 3s"), "{text}");
        assert!(text.contains(" -> 3.000000000 1.0 #0 - killed"), "{text}");
        assert!(text.contains(" -> 6.000000000 2.1 #1 a acquired"), "{text}");
    }

    #[test]
    fn a_permit_that_is_not_returned_from_a_dead_holder_is_found() {
        let permits = |third: &str| {
            check(&format!(
                "1.0 1.1 #1 a invoked permit/2
                 1.0 1.1 #1 a acquired token=1 until=99.0
                 1.0 2.1 #1 a invoked permit/2
                 1.0 2.1 #1 a acquired token=2 until=99.0
                 2.0 3.1 #1 a invoked permit/2
                 3.0 2.0 #0 - killed
                 {third} 3.1 #1 a acquired token=3 until=99.0"
            ))
        };
        assert_eq!(permits("4.0").expect("soon").longest_idle, SECOND);
        let text = permits("6.0").expect_err("one was free for three seconds").to_string();
        assert!(
            text.starts_with("progress: a permit of lock \"a\" was wanted and held by nobody for 3s"),
            "{text}"
        );
    }

    #[test]
    fn a_lease_that_ran_out_begins_the_idle_time_and_an_unknown_outcome_delays_it() {
        let ran_out = "1.0 1.1 #1 a acquired token=1 until=3.0\n2.0 2.1 #1 a invoked exclusive\n";
        let served = "6.0 2.1 #1 a acquired token=2 until=99.0";
        check(&format!("{ran_out}{served}")).expect_err("idle for three seconds");
        let ghost = "1.5 3.1 #1 a invoked exclusive\n2.5 3.1 #1 a unknown until=5.5\n";
        check(&format!("{ran_out}{ghost}{served}")).expect("it may have been held by the third");
    }

    #[test]
    fn time_counts_from_the_end_of_the_last_fault() {
        let faulty = |answer: u64| {
            format!(
                "1.0 1.1 #1 a invoked exclusive
                 2.0 9.0 #0 - fault-began partition
                 10.0 9.0 #0 - fault-ended partition
                 {answer}.0 1.1 #1 a acquired token=1 until=99.0"
            )
        };
        assert_eq!(check(&faulty(12)).expect("soon after the fault").longest_wait, 2 * SECOND);
        check(&faulty(13)).expect_err("idle for too long");
        check(&faulty(16)).expect_err("answered too late");
    }
}
