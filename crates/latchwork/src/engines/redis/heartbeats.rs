//! Heartbeats of many waiting claims, in one request.
//!
//! The claims of one client wake at the same tick, one after the other. The first claim that is due collects
//! the others and sends the heartbeats of all, so that a client that waits for many locks costs its server
//! about one request per tick.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::claim::wait_lease;
use super::connection::Connection;
use super::keys::Keys;
use super::script_replies::{self, KeyState};
use super::scripts::Script;
use super::{Redis, millis, record};
use crate::Result;
use crate::engine::{Claim, Verdict};
use crate::poison::lock_ignoring_poison;

/// The maximum number of heartbeats in one request.
const MAX_BATCH: usize = 200;
/// How long the first claim waits for the others of its tick.
const COLLECT_TIME: Duration = Duration::from_millis(3);

/// Collects the heartbeats of the claims that wait on one runtime.
#[derive(Default)]
pub(super) struct Heartbeats {
    batch: Mutex<HeartbeatBatch>,
}

#[derive(Default)]
struct HeartbeatBatch {
    due: Vec<Heartbeat>,
    /// Wakes the collector early, once this many heartbeats are due.
    full: Option<(usize, oneshot::Sender<()>)>,
}

/// A waiting claim, and where its answer goes. `None`: a heartbeat is not enough, and the claim must be sent
/// again.
pub(super) struct Heartbeat {
    pub(super) claim: Claim,
    pub(super) answer: oneshot::Sender<Option<KeyState>>,
}

impl Heartbeats {
    /// Joins the next request of a client with `waiting` waiting claims. The first claim to join is the
    /// collector: it returns all heartbeats, its own included, to be sent. If it fails to send them, no claim
    /// receives an answer.
    pub(super) async fn join(
        &self,
        claim: &Claim,
        waiting: usize,
    ) -> (Vec<Heartbeat>, oneshot::Receiver<Option<KeyState>>) {
        let (answer, answered) = oneshot::channel();
        let Some(full) = self.push(Heartbeat { claim: claim.clone(), answer }, waiting) else {
            return (Vec::new(), answered);
        };
        let collector = Collector(self);
        let _ = timeout(COLLECT_TIME, full).await;
        let due = collector.take();
        std::mem::forget(collector); // A claim that joins from now on is the next collector.
        (due, answered)
    }

    /// Adds a heartbeat. The first claim gets a receiver that resolves when the batch is full.
    fn push(&self, heartbeat: Heartbeat, waiting: usize) -> Option<oneshot::Receiver<()>> {
        let mut batch = lock_ignoring_poison(&self.batch);
        batch.due.push(heartbeat);
        let full = (batch.due.len() == 1).then(|| {
            let (sender, full) = oneshot::channel();
            batch.full = Some((waiting, sender));
            full
        });
        let due = batch.due.len();
        // Dropping the sender wakes the collector.
        batch.full.take_if(|(count, _)| due >= *count);
        full
    }
}

/// The claim that collects. Dropped before it took the batch, it drops the batch: the other claims must not
/// wait for it.
struct Collector<'a>(&'a Heartbeats);

impl Collector<'_> {
    fn take(&self) -> Vec<Heartbeat> {
        std::mem::take(&mut *lock_ignoring_poison(&self.0.batch)).due
    }
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        self.take();
    }
}

impl Redis {
    /// A claim that waits already, of a client that waits for several locks: one request has the heartbeats
    /// of all.
    pub(super) async fn heartbeat(
        &self,
        connection: &Connection,
        claim: &Claim,
        keys: Keys<'_>,
    ) -> Result<Verdict> {
        let (due, answered) = connection.heartbeats.join(claim, self.session.waiters.waiting()).await;
        self.send_heartbeats(connection, due).await;
        match answered.await {
            Ok(Some(state)) => Ok(Verdict::Busy(self.busy(claim, &state))),
            _ => self.send_claim(connection, claim, keys).await,
        }
    }

    async fn send_heartbeats(&self, connection: &Connection, mut due: Vec<Heartbeat>) {
        while !due.is_empty() {
            let rest = due.split_off(due.len().min(MAX_BATCH));
            // After an error every claim sends a request of its own, and finds out by itself.
            if let Ok(states) = self.send_batch(connection, &due).await {
                due.into_iter().zip(states).for_each(|(due, state)| drop(due.answer.send(state)));
            }
            due = rest;
        }
    }

    async fn send_batch(&self, connection: &Connection, due: &[Heartbeat]) -> Result<Vec<Option<KeyState>>> {
        let mut command = connection.script(Script::Heartbeat, 4 * due.len(), 512 * due.len());
        for due in due {
            Keys::of(&self.options().prefix, &due.claim.name)?.write(&mut command);
        }
        for Heartbeat { claim, .. } in due {
            let tail = record::Tail(claim, self.session.channel_id());
            command.arg(&record::encode_id(claim.id)[..]).arg(&tail).arg(&millis(wait_lease(claim)));
        }
        let reply = connection.call(Script::Heartbeat, command, self.options()).await?;
        script_replies::heartbeats(reply, due.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::LockName;
    use crate::clock::Clock;

    fn claim() -> Claim {
        Claim::new(LockName::new("a").unwrap(), Duration::from_secs(1))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_collects_all_of_a_tick_and_does_not_wait_once_they_are_there() {
        let heartbeats = Arc::<Heartbeats>::default();
        let clock = Clock::tokio();
        let begun = clock.now();
        let join = |waiting| {
            let heartbeats = heartbeats.clone();
            tokio::spawn(async move { heartbeats.join(&claim(), waiting).await.0.len() })
        };
        let joined = [join(3), join(3), join(3)];
        let mut collected = Vec::new();
        for join in joined {
            collected.push(join.await.unwrap());
        }
        assert_eq!((collected, clock.now()), (vec![3, 0, 0], begun));
        assert_eq!(join(3).await.unwrap(), 1, "it does not wait for claims that have left");
        assert!(clock.now() >= begun.after(COLLECT_TIME));
    }

    #[tokio::test]
    async fn a_collector_that_is_dropped_leaves_no_claim_waiting() {
        let heartbeats = Heartbeats::default();
        let first = claim();
        let mut collector = Box::pin(heartbeats.join(&first, 2));
        assert!(is_pending(&mut collector).await);
        let (due, answered) = heartbeats.join(&claim(), 9).await;
        assert!(due.is_empty());
        drop(collector);
        assert!(answered.await.is_err());
        assert_eq!(heartbeats.join(&claim(), 1).await.0.len(), 1, "and the next claim is a collector");
    }

    /// Polls once. Returns whether the future is pending.
    async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
