//! Waiters that arrived one after the other, and must be granted the lock in that order.

use std::time::Duration;

use latchwork::{Result, Token};
use tokio::task::JoinHandle;

use crate::harness::{FaultHarness, LOCK, LONG, SOON};
use crate::history::{RecordedClient, RecordedGuard};

/// Clients that wait for [`LOCK`].
pub struct WaiterQueue {
    waiting: Vec<JoinHandle<Result<RecordedGuard>>>,
}

impl WaiterQueue {
    /// Makes these clients wait behind the holder, each when the observer sees the one before it in the
    /// queue.
    pub async fn form(
        harness: &FaultHarness,
        observer: &RecordedClient,
        clients: &[RecordedClient],
        ttl: Duration,
    ) -> Self {
        let mut waiting = Vec::new();
        for (number, client) in clients.iter().enumerate() {
            let lock = client.lock(LOCK).ttl(ttl).wait(LONG);
            waiting.push(tokio::spawn(async move { lock.acquire().await }));
            harness.wait_for_waiters(observer, number + 1).await;
        }
        Self { waiting }
    }

    /// Whether all of them still wait.
    pub fn all_waiting(&self) -> bool {
        self.waiting.iter().all(|waiter| !waiter.is_finished())
    }

    /// Takes the first waiter out, which the others are behind.
    pub fn take_first(&mut self) -> JoinHandle<Result<RecordedGuard>> {
        self.waiting.remove(0)
    }

    /// Releases the lock, and waits until the waiters have held it one after the other, each with a greater
    /// token.
    ///
    /// # Panics
    /// If they are not.
    pub async fn granted_in_order_after(self, guard: RecordedGuard) {
        assert!(self.all_waiting(), "no waiter has the lock before its release");
        let newest = guard.token().expect("the engine has tokens");
        guard.release().await.expect("held");
        self.granted_in_order(newest).await;
    }

    /// Waits until the waiters have held the lock one after the other.
    ///
    /// # Panics
    /// If they are not.
    pub async fn granted_in_order(self, mut newest: Token) {
        for waiter in self.waiting {
            let guard = granted(waiter).await;
            let token = guard.token().expect("the engine has tokens");
            assert!(token > newest, "{token} after {newest}");
            newest = token;
            guard.release().await.expect("held");
        }
    }
}

/// Waits for the waiter's turn.
///
/// # Panics
/// If it does not come in time.
pub async fn granted(waiter: JoinHandle<Result<RecordedGuard>>) -> RecordedGuard {
    let guard = tokio::time::timeout(SOON, waiter).await.expect("granted in the order of arrival");
    guard.expect("no panic").expect("its turn comes")
}
