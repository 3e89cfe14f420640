//! The guarantees, as checks of a [`History`].
//!
//! Each check takes `O(n log n)` time and returns either its statistics or the first [`Violation`].

#[cfg(test)]
mod every_pair;
mod exclusion;
mod excuses;
mod fifo;
mod kept;
mod leaders;
mod nothing_left;
mod progress;
mod stats;
mod tokens;
mod told;
mod writers;

pub use exclusion::exclusion;
pub use excuses::Excuses;
pub use fifo::fifo;
pub use kept::kept;
pub use leaders::leaders;
pub use nothing_left::nothing_left;
pub use progress::progress;
pub use stats::Stats;
pub use tokens::tokens;
pub use told::told;
pub use writers::{JOIN_FOR, writers};

use std::time::Duration;

use latchwork::Guarantees;
use latchwork::engine::LockState;

use super::{Fault, History, Violation, What};

/// The caller's expectations of the test.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// The limit for an attempt to be answered once faults are over.
    pub answer_within: Duration,
    /// The limit for a lock to be wanted and not held once faults are over.
    pub idle_at_most: Duration,
    /// The longest time for which a claim is under way; `None` if only attempts that were seen in the queue
    /// count as queued.
    pub queued_after: Option<Duration>,
    /// The engine's state at rest; `None` if it was not inspected.
    pub left: Option<Vec<LockState>>,
}

/// Runs every check that applies to an engine with these guarantees.
///
/// A fault under which the engine does not guarantee exclusion excuses the holds under it from [`exclusion`]
/// and [`told`]. Tokens are checked nevertheless, unless the engine has none or may forget them with its
/// data.
///
/// # Errors
/// The first violation.
pub fn check_all(
    history: &History,
    promised: &Guarantees,
    expected: &Expectations,
) -> Result<Vec<Stats>, Violation> {
    let unexclusive = Excuses::from_exclusion(history, promised);
    let mut stats = vec![
        exclusion(history, &unexclusive)?,
        told(history, &Excuses::from_telling(history, promised))?,
        progress(history, expected.answer_within, expected.idle_at_most)?,
    ];
    let deleted = history.events().iter().any(|event| event.what == What::FaultBegan(Fault::DataDeleted));
    if promised.tokens.is_some() && (promised.tokens_survive_data_loss || !deleted) {
        stats.push(tokens(history, &unexclusive)?);
        if promised.fair {
            let (queued_after, disorder) = (expected.queued_after, Excuses::from_order(history));
            stats.push(fifo(history, queued_after, &disorder)?);
            stats.push(writers(history, queued_after, JOIN_FOR, &disorder)?);
        }
    }
    if let Some(left) = &expected.left {
        stats.push(nothing_left(history, left)?);
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use latchwork::Promise;
    use latchwork::engine::Engine;
    use latchwork::engines::Memory;

    use super::*;
    use crate::history::tests::{orderly, script};

    const LONG: Duration = Duration::from_secs(60);

    fn expected() -> Expectations {
        Expectations { answer_within: LONG, idle_at_most: LONG, queued_after: None, left: Some(Vec::new()) }
    }

    fn promised() -> Guarantees {
        Memory::new().guarantees()
    }

    const OVERLAP: &str = "1.0 1.1 #1 a acquired token=256 until=32.0
         2.0 9.0 #0 - fault-began data-deleted
         2.0 9.0 #0 - fault-ended data-deleted
         4.0 2.1 #1 a acquired token=512 until=34.0
         9.0 9.0 #0 - quiesced";

    #[tokio::test]
    async fn every_check_is_run() {
        let mut history = orderly(4_000).events().to_vec();
        history.extend(script("9000.0 9.0 #0 - quiesced").events().iter().cloned());
        let stats =
            check_all(&History::new(history), &promised(), &expected()).expect("an orderly history passes");
        let checks: Vec<_> = stats.iter().map(|stats| stats.check).collect();
        assert_eq!(checks, ["exclusion", "told", "progress", "tokens", "fifo", "writers", "nothing left"]);
    }

    #[tokio::test]
    async fn a_hold_that_is_only_fenced_is_excused_from_exclusion_but_not_from_order() {
        let mut promised = promised();
        promised.tokens_survive_data_loss = true;
        let stats = check_all(&script(OVERLAP), &promised, &expected()).expect("fenced only");
        assert_eq!((stats[0].excused, stats[0].judged), (1, 1));
        let back = script(&OVERLAP.replace("token=256", "token=768"));
        let back =
            check_all(&back, &promised, &expected()).expect_err("asked for after the greater was held");
        assert_eq!(back.check(), "tokens");
        promised.faults.data_deleted = Promise::Exclusive;
        let violation = check_all(&script(OVERLAP), &promised, &expected()).expect_err("promised");
        assert_eq!(violation.check(), "exclusion");
    }

    #[tokio::test]
    async fn an_engine_that_forgets_its_tokens_is_not_held_to_them_after_that() {
        let back = script(&OVERLAP.replace("token=512", "token=1"));
        let stats = check_all(&back, &promised(), &expected()).expect("the engine guarantees no more");
        assert!(stats.iter().all(|stats| stats.check != "tokens"));
    }
}
