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
    pub async fn up(
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
    pub fn stands(&self) -> bool {
        self.waiting.iter().all(|waiter| !waiter.is_finished())
    }

    /// Takes the first waiter out, which the others are behind.
    pub fn first(&mut self) -> JoinHandle<Result<RecordedGuard>> {
        self.waiting.remove(0)
    }

    /// Releases the lock, and waits until the waiters have held it one after the other, each with a greater
    /// token.
    ///
    /// # Panics
    /// If they are not.
    pub async fn served_after(self, guard: RecordedGuard) {
        assert!(self.stands(), "nobody has the lock before it is released");
        let newest = guard.token().expect("the engine has tokens");
        guard.release().await.expect("held");
        self.served(newest).await;
    }

    /// Waits until the waiters have held the lock one after the other.
    ///
    /// # Panics
    /// If they are not.
    pub async fn served(self, mut newest: Token) {
        for waiter in self.waiting {
            let guard = served(waiter).await;
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
pub async fn served(waiter: JoinHandle<Result<RecordedGuard>>) -> RecordedGuard {
    let guard = tokio::time::timeout(SOON, waiter).await.expect("in the order in which they came");
    guard.expect("no panic").expect("its turn comes")
}
