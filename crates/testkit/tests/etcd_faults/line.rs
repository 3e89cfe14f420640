//! Waiters that came one after the other, and must be served so.

use std::time::Duration;

use latchwork::{Result, Token};
use testkit::history::{RecordedClient, RecordedGuard};
use tokio::task::JoinHandle;

use super::scene::{LOCK, LONG, SOON, Scene, Servers};

/// Clients that wait for [`LOCK`].
pub(crate) struct Line {
    waiting: Vec<JoinHandle<Result<RecordedGuard>>>,
}

impl Line {
    /// Lets these clients queue behind the holder, each when the one before is seen in the queue.
    pub(crate) async fn up<S: Servers>(scene: &Scene<S>, clients: &[RecordedClient], ttl: Duration) -> Self {
        let (observer, mut waiting) = (scene.direct_client().await, Vec::new());
        for (number, client) in clients.iter().enumerate() {
            let lock = client.lock(LOCK).ttl(ttl).wait(LONG);
            waiting.push(tokio::spawn(async move { lock.acquire().await }));
            scene.until_waiting(&observer, number + 1).await;
        }
        observer.client().close().await.expect("it held nothing");
        Self { waiting }
    }

    /// Whether all of them still wait.
    pub(crate) fn stands(&self) -> bool {
        self.waiting.iter().all(|waiter| !waiter.is_finished())
    }

    /// The first of them, which the others stand behind.
    pub(crate) fn first(&mut self) -> JoinHandle<Result<RecordedGuard>> {
        self.waiting.remove(0)
    }

    /// Releases the lock, and has them served one after the other, each with a greater token.
    pub(crate) async fn served_after(self, guard: RecordedGuard) {
        assert!(self.stands(), "nobody has the lock before it is released");
        let newest = guard.token().expect("etcd has tokens");
        guard.release().await.expect("held");
        self.served(newest).await;
    }

    /// Has them served one after the other.
    pub(crate) async fn served(self, mut newest: Token) {
        for waiter in self.waiting {
            let guard = tokio::time::timeout(SOON, waiter).await.expect("in the order in which they came");
            let guard = guard.expect("no panic").expect("its turn comes");
            let token = guard.token().expect("etcd has tokens");
            assert!(token > newest, "{token} after {newest}");
            newest = token;
            guard.release().await.expect("held");
        }
    }
}
