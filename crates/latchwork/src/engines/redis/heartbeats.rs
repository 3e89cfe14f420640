//! Heartbeats of many waiting claims, in one request.
//!
//! The first claim that is due waits a moment for the others, and sends the heartbeats of all.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;

use super::reply::State;
use crate::clock::Clock;
use crate::engine::Claim;
use crate::poison::lock_ignoring_poison;

/// The most heartbeats in one request.
pub(super) const MOST: usize = 200;
/// How long the first lets others run before it goes without those that are missing.
const PATIENCE: Duration = Duration::from_millis(3);

/// Waiting claims whose heartbeat is due.
#[derive(Default)]
pub(super) struct Heartbeats {
    due: Mutex<Vec<Due>>,
}

/// A claim, and who waits for its answer. `None`: there is more to do than to wait.
pub(super) struct Due {
    pub(super) claim: Claim,
    pub(super) answer: oneshot::Sender<Option<State>>,
}

impl Heartbeats {
    /// Joins the next request, of a client with so many `waiting` claims. The first to join gets all of them, itself
    /// included, to send; if it fails to, nobody gets an answer.
    pub(super) async fn join(
        &self,
        claim: &Claim,
        waiting: usize,
    ) -> (Vec<Due>, oneshot::Receiver<Option<State>>) {
        let (answer, answered) = oneshot::channel();
        let leads = {
            let mut due = lock_ignoring_poison(&self.due);
            due.push(Due { claim: claim.clone(), answer });
            due.len() == 1
        };
        if !leads {
            return (Vec::new(), answered);
        }
        let leading = Leading(self);
        // Those that are due at the same tick are woken one after the other.
        let until = Clock::boottime().now().after(PATIENCE);
        while lock_ignoring_poison(&self.due).len() < waiting && Clock::boottime().now() < until {
            tokio::task::yield_now().await;
        }
        let due = leading.take();
        std::mem::forget(leading); // Whoever joins from now on has a leader of its own.
        (due, answered)
    }
}

/// The first to join. If it is dropped, the others must not wait for it.
struct Leading<'a>(&'a Heartbeats);

impl Leading<'_> {
    fn take(&self) -> Vec<Due> {
        std::mem::take(&mut lock_ignoring_poison(&self.0.due))
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.take();
    }
}
