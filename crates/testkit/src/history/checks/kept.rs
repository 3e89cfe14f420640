//! Every hold has a lease of its own: no client loses a lock because others died.

use std::collections::HashSet;
use std::time::Duration;

use super::{Excuses, Stats};
use crate::history::{History, Hold, Point, Violation, What};

const CHECK: &str = "kept";

/// Checks that no hold was lost unless its process was killed or stopped, or a fault was active.
///
/// Covers only holds whose lease was at least `long` at the start: a shorter one may end because the machine
/// is busy.
///
/// # Errors
/// The hold that was lost for no reason.
pub fn kept(history: &History, long: Duration, excuses: &Excuses) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    let harmed = harmed(history);
    for hold in history.holds().iter().filter(|hold| hold.lease_end.since(hold.start.at) >= long) {
        if harmed.contains(&hold.who.process) || excuses.cover(hold.invoked, last_heard_of(hold)) {
            stats.excused += 1;
            continue;
        }
        stats.judged += 1;
        if let Some(at) = hold.lost {
            let (who, lock) = (hold.who, &hold.lock);
            let says = format!("{who} lost lock {lock:?}, and nothing had happened to it");
            return Err(Violation::new(CHECK, history, [hold.start, at], says));
        }
    }
    Ok(stats)
}

fn last_heard_of(hold: &Hold) -> Point {
    hold.lost.map_or(hold.end, |lost| lost.max(hold.end))
}

fn harmed(history: &History) -> HashSet<u32> {
    let is_harm = |what: What| matches!(what, What::Killed | What::Stopped);
    let harmed = history.events().iter().filter(|event| is_harm(event.what));
    harmed.map(|event| event.who.process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::script;

    const LONG: Duration = Duration::from_secs(5);
    /// Two clients have a permit each; then one is lost.
    const LOST: &str = "1.0 1.1 #1 a invoked permit/2
         1.0 1.1 #1 a acquired token=256 until=31.0
         2.0 2.1 #1 a invoked permit/2
         2.0 2.1 #1 a acquired token=512 until=32.0
         4.0 2.1 #1 a found-lost Removed\n";

    fn check(lines: &str) -> Result<Stats, Violation> {
        let history = script(lines);
        kept(&history, LONG, &Excuses::from_order(&history))
    }

    #[test]
    fn a_permit_that_is_lost_because_another_holder_died_is_found() {
        let text =
            check(&format!("{LOST}3.0 1.0 #0 - killed")).expect_err("the observer was alive").to_string();
        assert!(text.starts_with("kept: 2.1 lost lock \"a\", and nothing had happened to it"), "{text}");
        assert!(text.contains(" -> 4.000000000 2.1 #1 a found-lost"), "{text}");
        check(&LOST.replace("found-lost Removed", "told Removed until=32.0")).expect_err("told or found");
    }

    #[test]
    fn a_killed_or_stopped_holder_or_one_under_a_fault_may_lose_it() {
        for why in ["3.0 2.0 #0 - killed", "3.0 2.0 #0 - stopped", "3.0 9.0 #0 - fault-began partition"] {
            check(&format!("{LOST}{why}")).expect(why);
        }
        assert_eq!(check(&format!("{LOST}3.0 2.0 #0 - stopped")).expect("stopped").judged, 1);
        check(&LOST.replace("until=32.0", "until=4.5")).expect("too short to be kept for certain");
    }
}
