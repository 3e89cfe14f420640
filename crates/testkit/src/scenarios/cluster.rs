//! A fault of a cluster in the middle of contention: a holder, the waiters behind it, and the contenders for
//! another lock all continue when it is over.

use std::ops::Deref;
use std::time::Duration;

use latchwork::ErrorKind;

use crate::harness::{FaultHarness, Judged, LOCK, LONG, SOON, take, wait_for_renewal};
use crate::history::{Fault, RecordedClient};
use crate::store::Written;
use crate::workload::contenders::{Contenders, TTL, Tally};
use crate::workload::queue::WaiterQueue;

/// The lock of the contenders.
const BUSY: &str = "busy";
/// The length of a turn.
const TURN: Duration = Duration::from_millis(3);

/// Restarts a server that keeps its data under a holder and its queue: the holder and every waiter are still
/// there after the restart, and the waiters are granted in order.
pub async fn survives_a_restart(harness: &FaultHarness, clients: &[RecordedClient], restart: impl FnOnce()) {
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().expect("certain"), "before"), Written::Accepted);
    let mut waiting = Vec::new();
    for (number, client) in clients[1..].iter().enumerate() {
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        harness.wait_for_waiters(&clients[0], number + 1).await;
    }
    harness.inject(Fault::Trouble, restart);
    wait_for_renewal(&guard).await;
    wait_for_renewal(&guard).await;
    assert!(guard.is_certain(), "held all the time");
    harness.wait_for_waiters(&clients[0], clients.len() - 1).await;
    assert_eq!(store.write(guard.token().expect("certain"), "after"), Written::Accepted);
    let mut newest = guard.token().expect("certain");
    guard.release().await.expect("held");
    for waiter in waiting {
        let guard = tokio::time::timeout(SOON, waiter).await.expect("granted in the order of arrival");
        let guard = guard.expect("no panic").expect("its turn comes");
        assert!(guard.token().expect("certain") > newest);
        newest = guard.token().expect("certain");
        guard.release().await.expect("held");
    }
}

/// A cluster with a fault harness around it.
#[allow(async_fn_in_trait, reason = "its futures are awaited by the test itself, and need not be Send")]
pub trait ClusterHarness: Deref<Target = FaultHarness> {
    /// Waits until all members serve clients again.
    fn until_healthy(&self);

    /// A client that no fault of the network harms.
    async fn observer(&self) -> RecordedClient;

    /// Judges the record, and checks that the servers have nothing left.
    async fn judged(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged;

    /// Makes these clients wait for [`LOCK`], one behind the other.
    async fn enqueue(&self, clients: &[RecordedClient], ttl: Duration) -> WaiterQueue {
        let observer = self.observer().await;
        let queue = WaiterQueue::form(self, &observer, clients, ttl).await;
        observer.client().close().await.expect("the observer held nothing");
        queue
    }
}

/// The clients of a scenario.
pub struct ClusterScenario<T> {
    /// The cluster.
    pub harness: T,
    /// A holder and three waiters behind it.
    pub queue: Vec<RecordedClient>,
    /// The contenders for the other lock.
    pub contenders: Vec<RecordedClient>,
    /// The ttl of the queue's clients, longer than the faults.
    pub ttl: Duration,
}

impl<T: ClusterHarness> ClusterScenario<T> {
    /// A long hold, the order of the queue behind it, and the work of the contenders for another lock survive
    /// the fault.
    ///
    /// # Panics
    /// If they do not.
    pub async fn survives(&self, fault: Fault, strike: impl AsyncFn()) -> Tally {
        let guard = take(&self.queue[0].lock(LOCK).ttl(self.ttl)).await;
        let mut store = self.harness.store();
        assert_eq!(store.write(guard.token().expect("certain"), "before"), Written::Accepted);
        let queue = self.harness.enqueue(&self.queue[1..], self.ttl).await;
        let contenders = Contenders::start_on(
            BUSY,
            &self.harness.store_path().with_extension(BUSY),
            &self.contenders,
            TURN,
        );
        contenders.wait_for_holds(20).await;
        self.inject(fault, strike).await;
        contenders.wait_for_holds(40).await;
        wait_for_renewal(&guard).await;
        assert!(guard.is_certain(), "held all the time");
        let token = guard.token().expect("certain");
        assert_eq!(store.write(token, "after"), Written::Accepted);
        assert!(queue.all_waiting(), "no waiter has the lock before its release");
        if let Err(error) = guard.release().await {
            // The release was sent to an unreachable member, and then again to another one.
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        }
        queue.granted_in_order(token).await;
        contenders.stop().await
    }

    async fn inject(&self, fault: Fault, strike: impl AsyncFn()) {
        self.harness.recorder.fault_began(fault);
        strike().await;
        self.harness.until_healthy();
        self.harness.recorder.fault_ended(fault);
    }

    /// Checks that no guarantee was broken.
    ///
    /// # Panics
    /// If one was.
    pub async fn is_judged(&self, tally: &Tally) {
        assert!(tally.refused == 0 && tally.only_unreachable_or_lost(), "{tally:?}");
        let everybody: Vec<_> = self.queue.iter().chain(&self.contenders).cloned().collect();
        let judged = self.harness.judged(&everybody, 2 * SOON).await;
        assert!(judged.exclusive() > 40, "most holds are not excused");
    }
}
