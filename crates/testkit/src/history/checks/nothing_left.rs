//! At rest, the engine keeps nothing.

use std::collections::HashSet;

use latchwork::engine::{ClaimState, LockState};

use super::Stats;
use crate::history::{History, Violation, What};

const CHECK: &str = "nothing left";

/// Checks that an inspection after [`What::Quiesced`] shows no holder and no waiter of the recorded clients:
/// on a recorded lock, by a process of the history (identified by its note) or of unknown origin.
///
/// # Errors
/// The state that is left; also if the history never came to rest, because then the inspection shows nothing.
pub fn nothing_left(history: &History, seen: &[LockState]) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    if !history.events().iter().any(|event| event.what == What::Quiesced) {
        return Err(Violation::without_events(CHECK, "the history never came to rest".to_owned()));
    }
    let processes: HashSet<u32> = history.events().iter().map(|event| event.who.process).collect();
    let recorded = |claim: &&ClaimState| process_of(claim).is_none_or(|process| processes.contains(&process));
    stats.judged = history.locks().count();
    for (lock, part) in history.locks() {
        let Some(state) = seen.iter().find(|state| state.name == *lock) else { continue };
        let left = [(&state.holders, "is still held by"), (&state.waiters, "is still waited for by")];
        for (claims, how) in left {
            let Some(claim) = claims.iter().find(recorded) else { continue };
            let says = format!("lock {lock:?} {how} {claim:?}");
            let last = part.attempts.iter().map(|index| history.attempts()[*index].invoked).max();
            return Err(match last {
                Some(last) => Violation::new(CHECK, history, [last, last], says),
                None => Violation::without_events(CHECK, says),
            });
        }
    }
    Ok(stats)
}

/// The process id in `pid 4242 on host: note`, the form in which clients describe themselves.
fn process_of(claim: &ClaimState) -> Option<u32> {
    claim.note.as_str().strip_prefix("pid ")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use latchwork::LockName;
    use latchwork::engine::{ClaimId, Note};

    use super::*;
    use crate::history::tests::script;

    const AT_REST: &str = "1.0 1.1 #1 a acquired token=1 until=9.0
         2.0 1.1 #1 a release
         3.0 9.0 #0 - quiesced";

    fn state(lock: &str, note: &str, holds: bool) -> LockState {
        let mut claim = ClaimState::new(ClaimId::from_bytes([7; 16]));
        claim.note = Note::new(note);
        let mut state = LockState::new(LockName::new(lock).unwrap());
        if holds { &mut state.holders } else { &mut state.waiters }.push(claim);
        state
    }

    #[test]
    fn an_empty_engine_passes_and_so_does_a_foreign_claim() {
        let history = script(AT_REST);
        assert_eq!(nothing_left(&history, &[]).expect("nothing is left").judged, 1);
        for stranger in [state("b", "pid 1 on host", true), state("a", "pid 77 on host", true)] {
            assert_eq!(nothing_left(&history, &[stranger]).expect("not recorded").judged, 1);
        }
    }

    #[test]
    fn a_holder_or_a_waiter_left_behind_is_found() {
        let history = script(AT_REST);
        for (holds, says) in [(true, "is still held by"), (false, "is still waited for by")] {
            for note in ["pid 1 on host", ""] {
                let violation = nothing_left(&history, &[state("a", note, holds)]).expect_err("left");
                let text = violation.to_string();
                assert!(text.starts_with(&format!("nothing left: lock \"a\" {says}")), "{text}");
                assert!(text.contains("acquired token=1"), "{text}");
            }
        }
    }

    #[test]
    fn a_history_that_never_came_to_rest_shows_nothing() {
        let violation =
            nothing_left(&script("1.0 1.1 #1 a queued"), &[]).expect_err("the history never came to rest");
        assert!(violation.to_string().contains("the history never came to rest"));
    }
}
