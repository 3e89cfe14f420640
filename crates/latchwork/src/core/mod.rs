//! The core owns time: waiting, renewing, deadlines, cancelling, and the queue inside this process.
//!
//! It is written once for all engines, and does not know any of them. Its rooms depend on each other in one
//! direction:
//!
//! ```text
//! acquire     drives an attempt, and waits in the client's queue for its turn
//!    |
//! held        a held claim, its lease, and the keeper that renews it
//!    |
//! background  releases, and requests whose caller may go away
//!    |
//! queue       decides which task of the client is next
//!    |
//! terms, defaults, telemetry
//! ```
//!
//! Three values carry the duties, and dropping one always does the right thing: a ticket is the right to
//! drive a name's remote claim, a [`HeldClaim`] is a held claim, and a `ReleasePending` opens the name again
//! once its release was answered.

mod acquire;
mod background;
pub(crate) mod defaults;
mod held;
mod queue;
mod telemetry;
mod terms;

pub(crate) use acquire::{AcquireOutcome, Blocker, acquire};
pub(crate) use background::ClientHandle;
pub(crate) use held::{HeldClaim, LeaseState};
pub(crate) use terms::{LeaseTerms, LockTerms, OnWaiting, WaitUntil};

use std::future::Future;
use std::sync::Arc;

use self::background::{Background, LimitedRequest, RequestDeadlines};
use self::held::{Keeper, SharedHandle};
use self::queue::LocalQueues;
use self::telemetry::Telemetry;
use crate::clock::{Clock, Moment};
use crate::engine::{Boxed, SharedEngine};
use crate::{Effect, Error, ErrorKind, Guarantees, Result};

/// The state that one client's guards, waiters and keeper share.
pub(crate) struct Core {
    pub(crate) engine: SharedEngine,
    /// The engine's guarantees when the client was made.
    pub(crate) promised: Guarantees,
    pub(crate) clock: Clock,
    /// The process it belongs to.
    pub(crate) pid: u32,
    pub(crate) telemetry: Telemetry,
    queues: LocalQueues<SharedHandle>,
    keeper: Keeper,
    background: Background,
}

impl Core {
    /// Waits for `work` until `limit`: an engine may hang, and its callers must not hang with it. Shielded
    /// work goes on in the background.
    pub(crate) fn until<T>(
        &self,
        limit: Moment,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        until(self.clock, limit, work)
    }

    /// Waits for the answer to a request, within the limit of any request.
    pub(crate) fn answer<T: 'static>(
        self: &Arc<Self>,
        work: Boxed<Result<T>>,
        now: Moment,
    ) -> LimitedRequest<T> {
        LimitedRequest::new(self, work, now)
    }

    fn deadlines(&self) -> &RequestDeadlines {
        &self.background.deadlines
    }

    pub(crate) fn new(engine: SharedEngine) -> Arc<Self> {
        let clock = engine.clock();
        let (background, promised) = (Background::new(clock), engine.guarantees());
        let telemetry = Telemetry::new(promised.engine);
        promised.warnings.iter().for_each(|warning| telemetry.warned(warning));
        Arc::new(Self {
            keeper: Keeper::new(&engine, clock),
            queues: LocalQueues::new(clock),
            telemetry,
            promised,
            engine,
            clock,
            pid: forkmark::process_id(),
            background,
        })
    }

    /// Whether this process is a fork of the one it belongs to.
    pub(crate) fn is_a_copy(&self) -> bool {
        self.pid != forkmark::process_id()
    }

    /// A fork must not use its parent's connections.
    pub(crate) fn refuse_a_copy(&self) -> Result<()> {
        if self.is_a_copy() {
            let message = "this process is a fork of the one that connected; connect again after the fork";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Waits until all background work is done, for at most [`defaults::CLOSE_LIMIT`] after the last lock
    /// that is kept for a while may be released.
    pub(crate) async fn flush(&self) -> Result<()> {
        let limit = self.background.kept_until().max(self.clock.now()).after(defaults::CLOSE_LIMIT);
        if self.until(limit, self.background.finished()).await.is_some() {
            return Ok(());
        }
        let (left, limit) = (self.background.unfinished(), defaults::CLOSE_LIMIT);
        let message =
            format!("{left} releases were not answered within {limit:?}; their leases end by themselves");
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.is_a_copy() {
            // The session is the parent's: its end here would end it there.
            std::mem::forget(self.engine.clone());
        }
    }
}

/// Waits for `work` until `limit`.
async fn until<T>(clock: Clock, limit: Moment, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep_until(limit) => None,
    }
}

fn no_answer_in_time() -> Error {
    let message =
        "the engine did not answer within the wait limit; is it, or a process that uses it, stopped?";
    Error::new(ErrorKind::TimedOut, message).with_effect(Effect::Unknown)
}

fn no_answer() -> Error {
    let limit = defaults::REQUEST_LIMIT;
    let message =
        format!("the engine did not answer within {limit:?}; is it, or a process that uses it, stopped?");
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The rooms, and the rooms above each: no source file of a room names one above it.
    const ABOVE: [(&str, &[&str]); 5] = [
        ("telemetry", &["queue", "background", "held", "acquire"]),
        ("queue", &["background", "held", "acquire"]),
        ("background", &["held", "acquire"]),
        ("held", &["acquire"]),
        ("acquire", &[]),
    ];

    #[test]
    fn rooms_depend_on_each_other_in_one_direction() {
        let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core");
        for (room, above) in ABOVE {
            for file in std::fs::read_dir(core.join(room)).expect("a folder") {
                let path = file.expect("a file").path();
                let source = std::fs::read_to_string(&path).expect("source code");
                for other in above {
                    let named = [format!("core::{other}"), format!("super::{other}")]
                        .into_iter()
                        .find(|named| source.contains(named));
                    assert_eq!(named, None, "in {}", path.display());
                }
                if ["queue", "background"].contains(&room) {
                    assert!(
                        !source.contains("HeldClaim") && !source.contains("LeaseState"),
                        "in {}",
                        path.display()
                    );
                }
                let is_pure = room != "queue" || !source.contains("Core") && !source.contains("engine.");
                assert!(is_pure, "{} uses the core or its engine", path.display());
            }
        }
    }
}
