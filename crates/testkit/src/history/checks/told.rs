//! A holder is told of its loss before another client can hold the lock, and before its lease ends.

use latchwork::clock::Moment;

use super::exclusion::compatible;
use super::{Excuses, Stats};
use crate::history::{History, Hold, Point, Violation};

const CHECK: &str = "told";

/// Checks that a listening holder is told of a loss no later than the end of its lease. Also checks that a
/// hold that was not released was told of its loss, or was no longer certain, before the next one began.
///
/// A holder that does not listen is not told, and a killed process need not be told.
///
/// # Errors
/// The hold that was told late or never, or the hold and its successor.
pub fn told(history: &History, excuses: &Excuses) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    for (_, lock) in history.locks() {
        let mut before: Option<&Hold> = None;
        for index in &lock.holds {
            let hold = &history.holds()[*index];
            if excuses.cover(hold.invoked, last_heard_of(hold)) {
                stats.excused += 1;
                before = None;
                continue;
            }
            stats.judged += 1;
            in_time(history, hold)?;
            if let Some(before) = before {
                before_the_next(history, before, hold)?;
            }
            before = Some(hold);
        }
    }
    Ok(stats)
}

fn last_heard_of(hold: &Hold) -> Point {
    [hold.told, hold.unheard].into_iter().flatten().fold(hold.end, |last, point| last.max(point))
}

fn in_time(history: &History, hold: &Hold) -> Result<(), Violation> {
    let (who, lock) = (hold.who, &hold.lock);
    let late = |at: Moment| at.since(hold.lease_end);
    if let Some(at) = hold.unheard {
        let says =
            format!("{who} was not told that its lease of lock {lock:?} had ended {:?} ago", late(at.at));
        return Err(Violation::new(CHECK, history, [hold.start, at], says));
    }
    if let Some(at) = hold.told.filter(|at| at.at > hold.lease_end) {
        let says =
            format!("{who} was told of its loss of lock {lock:?} {:?} after its lease ended", late(at.at));
        return Err(Violation::new(CHECK, history, [hold.start, at], says));
    }
    Ok(())
}

fn before_the_next(history: &History, hold: &Hold, next: &Hold) -> Result<(), Violation> {
    let released = hold.release.is_some_and(|at| at <= next.start);
    if released || hold.end <= next.start || compatible(hold.mode, next.mode) {
        return Ok(());
    }
    let (who, lock, other) = (hold.who, &hold.lock, next.who);
    let says = format!("{who} had not been told of its loss of lock {lock:?} when {other} held it");
    Err(Violation::new(CHECK, history, [hold.start, next.start], says))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{orderly, script};

    fn check(lines: &str) -> Result<Stats, Violation> {
        told(&script(lines), &Excuses::none())
    }

    fn violation(lines: &str) -> String {
        check(lines).expect_err("a violation is found").to_string()
    }

    #[test]
    fn a_holder_that_is_told_in_time_passes() {
        let stats = check(
            "1.0 1.1 #1 a acquired token=1 until=9.0
             1.0 1.1 #1 a listening
             8.0 1.1 #1 a told Unreachable until=9.0
             9.0 2.1 #1 a acquired token=2 until=20.0
             9.0 2.1 #1 a listening
             15.0 2.1 #1 a deaf until=35.0
             30.0 2.1 #1 a release
             31.0 3.1 #1 a acquired token=3 until=40.0
             50.0 3.1 #1 a found-lost Expired",
        );
        assert_eq!(stats.expect("an orderly history passes").judged, 3);
        assert_eq!(
            told(&orderly(200_000), &Excuses::none()).expect("an orderly history passes").judged,
            50_000
        );
    }

    #[test]
    fn a_report_after_the_end_of_the_lease_is_found() {
        let text = violation(
            "1.0 1.1 #1 a acquired token=1 until=9.0
             1.0 1.1 #1 a listening
             9.5 1.1 #1 a told Expired until=9.0",
        );
        assert!(
            text.starts_with("told: 1.1 was told of its loss of lock \"a\" 500ms after its lease ended"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_report_is_found() {
        let text = violation(
            "1.0 1.1 #1 a acquired token=1 until=9.0
             1.0 1.1 #1 a listening
             11.0 1.1 #1 a deaf until=9.0",
        );
        assert!(
            text.starts_with("told: 1.1 was not told that its lease of lock \"a\" had ended 2s ago"),
            "{text}"
        );
        assert!(text.contains(" -> 11.000000000 1.1 #1 a deaf"), "{text}");
    }

    #[test]
    fn a_successor_before_the_report_of_the_loss_is_found() {
        let text = violation(
            "1.0 1.1 #1 a acquired token=1 until=9.0
             1.0 1.1 #1 a listening
             5.0 2.1 #1 a acquired token=2 until=20.0
             6.0 1.1 #1 a told Removed until=9.0",
        );
        assert!(
            text.starts_with("told: 1.1 had not been told of its loss of lock \"a\" when 2.1 held it"),
            "{text}"
        );
    }

    #[test]
    fn a_pause_excuses_a_late_report() {
        let history = script(
            "1.0 1.1 #1 a acquired token=1 until=9.0
             1.0 1.1 #1 a listening
             5.0 9.0 #0 - fault-began holder-pause
             15.0 9.0 #0 - fault-ended holder-pause
             15.0 1.1 #1 a told Expired until=9.0",
        );
        assert_eq!(told(&history, &Excuses::from_order(&history)).expect("the fault excuses it").excused, 1);
    }
}
