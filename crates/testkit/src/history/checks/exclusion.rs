//! No two guards that exclude each other are certain at the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use latchwork::engine::Mode;

use super::{Excuses, Stats};
use crate::history::{History, Hold, Point, Violation};

const CHECK: &str = "exclusion";

/// Checks that no hold begins while an incompatible hold is certain.
///
/// Certain means from the return of acquire until the first of: a call of release, a reported loss, a kill of
/// the process, or the last known end of the lease.
///
/// # Errors
/// The two holds that were certain at once.
pub fn exclusion(history: &History, excuses: &Excuses) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    for (_, lock) in history.locks() {
        let mut present = Present::default();
        for index in &lock.holds {
            let hold = &history.holds()[*index];
            if excuses.cover(hold.invoked, hold.end) {
                stats.excused += 1;
                continue;
            }
            present.leave_until(hold.start, history);
            // A guard whose lease had ended when it was returned was never certain.
            if hold.lease_end > hold.start.at {
                stats.judged += 1;
                if let Some(other) = present.conflict(hold, history) {
                    return Err(held_twice(history, other, hold));
                }
                present.enter(*index, hold);
            }
        }
    }
    Ok(stats)
}

/// Whether these two modes may be held at the same time.
pub(super) fn compatible(one: Mode, other: Mode) -> bool {
    matches!((one, other), (Mode::Read, Mode::Read) | (Mode::Permit { .. }, Mode::Permit { .. }))
}

/// The holds that are certain right now, with the first to end on top.
#[derive(Default)]
struct Present {
    ends: BinaryHeap<Reverse<(Point, usize)>>,
}

impl Present {
    fn leave_until(&mut self, now: Point, history: &History) {
        while let Some(Reverse((end, index))) = self.ends.peek() {
            debug_assert!(history.holds()[*index].end == *end);
            if *end > now {
                break;
            }
            self.ends.pop();
        }
    }

    fn enter(&mut self, index: usize, hold: &Hold) {
        self.ends.push(Reverse((hold.end, index)));
    }

    /// The present holds are compatible with each other, so one of them stands for all, and permits only have
    /// to be counted.
    fn conflict<'a>(&self, hold: &Hold, history: &'a History) -> Option<&'a Hold> {
        let Reverse((_, index)) = self.ends.peek()?;
        let other = &history.holds()[*index];
        let full = matches!(hold.mode, Mode::Permit { of } if self.ends.len() >= of as usize);
        (full || !compatible(other.mode, hold.mode)).then_some(other)
    }
}

fn held_twice(history: &History, first: &Hold, second: &Hold) -> Violation {
    let (one, other, lock) = (first.who, second.who, &second.lock);
    let overlap = first.end.at.since(second.start.at);
    let says = format!(
        "lock {lock:?} was held by {one} and by {other} at once, for {overlap:?} or until the second ended"
    );
    Violation::new(CHECK, history, [first.start, second.start], says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Fault;
    use crate::history::tests::{orderly, script};

    fn check(lines: &str) -> Result<Stats, Violation> {
        exclusion(&script(lines), &Excuses::none())
    }

    fn violation(lines: &str) -> String {
        check(lines).expect_err("a violation is found").to_string()
    }

    #[test]
    fn orderly_holds_pass() {
        let stats = check(
            "1.0 1.1 #1 a invoked exclusive
             2.0 1.1 #1 a acquired token=1 until=32.0
             3.0 2.1 #1 b acquired token=1 until=32.0
             5.0 1.1 #1 a release
             5.0 2.1 #2 a acquired token=2 until=32.0
             6.0 2.0 #0 - killed
             7.0 3.1 #1 a acquired token=3 until=9.0
             9.0 4.1 #1 a acquired token=4 until=40.0
             10.0 4.1 #1 a told Removed until=40.0
             11.0 5.1 #1 a acquired token=5 until=40.0",
        );
        assert_eq!(stats.expect("an orderly history passes").judged, 6);
        assert_eq!(
            exclusion(&orderly(200_000), &Excuses::none()).expect("an orderly history passes").judged,
            50_000
        );
    }

    #[test]
    fn an_overlap_is_found_with_both_events() {
        let text = violation(
            "1.0 1.1 #1 a acquired token=1 until=32.0
             4.0 2.1 #1 a acquired token=2 until=34.0
             5.5 1.1 #1 a release",
        );
        assert!(
            text.starts_with("exclusion: lock \"a\" was held by 1.1 and by 2.1 at once, for 1.5s"),
            "{text}"
        );
        assert!(text.contains("    1.000000000 1.1 #1 a acquired token=1"), "{text}");
        assert!(text.contains(" -> 4.000000000 2.1 #1 a acquired token=2"), "{text}");
        assert!(text.contains("    5.500000000 1.1 #1 a release"), "{text}");
    }

    #[test]
    fn an_overlap_within_one_moment_is_found() {
        violation(
            "1.0 1.1 #1 a acquired token=1 until=32.0
             1.0 2.1 #1 a acquired token=2 until=32.0
             1.0 1.1 #1 a release
             1.0 2.1 #1 a release",
        );
    }

    #[test]
    fn a_hold_that_began_before_its_predecessor_was_killed_is_found() {
        violation(
            "1.0 1.1 #1 a acquired token=1 until=32.0
             4.0 2.1 #1 a acquired token=2 until=34.0
             5.0 1.0 #0 - killed",
        );
    }

    #[test]
    fn a_long_hold_is_remembered_beyond_short_ones() {
        violation(
            "1.0 1.1 #1 a invoked read
             1.0 1.1 #1 a acquired token=1 until=90.0
             2.0 2.1 #1 a invoked read
             2.0 2.1 #1 a acquired token=2 until=90.0
             3.0 2.1 #1 a release
             4.0 3.1 #1 a invoked write
             5.0 3.1 #1 a acquired token=3 until=90.0",
        );
    }

    #[test]
    fn readers_and_permits_share_within_their_limits() {
        let permits = |holders: u32| {
            let line = |n| {
                format!("{n}.0 {n}.1 #1 a invoked permit/2\n{n}.5 {n}.1 #1 a acquired token={n} until=99.0\n")
            };
            (1..=holders).map(line).collect::<String>()
        };
        check(&permits(2)).expect("two permits of two");
        violation(&permits(3));
        violation(&format!("{}\n8.0 8.1 #1 a acquired token=8 until=99.0", permits(1)));
    }

    #[test]
    fn a_fault_excuses_only_the_holds_under_it() {
        let lines = "1.0 1.1 #1 a acquired token=1 until=32.0
             2.0 9.0 #0 - fault-began data-deleted
             2.0 9.0 #0 - fault-ended data-deleted
             4.0 2.1 #1 a acquired token=2 until=34.0";
        let deleted = |history: &History| Excuses::of(history, |fault| fault == Fault::DataDeleted);
        let history = script(lines);
        let stats = exclusion(&history, &deleted(&history)).expect("the fault excuses it");
        assert_eq!((stats.judged, stats.excused), (1, 1));
        let history = script(&format!("{lines}\n5.0 3.1 #1 a acquired token=3 until=35.0"));
        exclusion(&history, &deleted(&history)).expect_err("both began after the fault");
    }
}
