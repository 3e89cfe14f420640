//! Claims of ours in every mode, through the engine without the core.

use std::sync::Arc;
use std::time::Duration;

use latchwork::LockName;
use latchwork::clock::Moment;
use latchwork::engine::{Claim, Engine as _, Grant, Mode, Released, Verdict, Wake};
use latchwork::engines::ZooKeeper;
use testkit::history::{Recorder, Tag, What};
use tokio::task::JoinHandle;

use super::harness::LONG;

/// A session of ours, whose claims are recorded.
#[derive(Clone)]
pub(crate) struct OurClient {
    engine: ZooKeeper,
    recorder: Recorder,
    tag: Tag,
    name: LockName,
}

/// A claim that waits, or that holds.
pub(crate) struct JoinedClaim {
    claim: Arc<Claim>,
    waiting: JoinHandle<Grant>,
    number: u64,
}

impl OurClient {
    pub(crate) async fn connect(url: &str, recorder: Recorder, tag: Tag, lock: &str) -> Self {
        let engine = ZooKeeper::connect(&url.parse().expect("a valid URL"))
            .await
            .expect("the server accepts the connection");
        Self { engine, recorder, tag, name: LockName::new(lock).expect("a good name") }
    }

    /// Joins the queue.
    pub(crate) fn join(&self, number: u64, mode: Mode) -> JoinedClaim {
        let mut claim = Claim::new(self.name.clone(), LONG);
        (claim.mode, claim.wait_lease) = (mode, LONG);
        let claim = Arc::new(claim);
        self.note(number, What::Invoked(mode));
        let waiting = tokio::spawn({
            let (ours, claim) = (self.clone(), claim.clone());
            async move {
                let grant = ours.acquire(&claim).await;
                ours.note(number, What::Acquired { token: grant.token, lease_end: Moment::NEVER });
                grant
            }
        });
        JoinedClaim { claim, waiting, number }
    }

    /// Whether a try gets the lock; if so, it is released again.
    pub(crate) async fn can_lock(&self, mode: Mode) -> bool {
        let mut claim = Claim::new(self.name.clone(), LONG);
        claim.mode = mode;
        match self.engine.claim(&claim).await.expect("an answer") {
            Verdict::Busy(_) => false,
            Verdict::Granted(_) => self.engine.release(&claim).await.expect("an answer") == Released::Freed,
        }
    }

    async fn acquire(&self, claim: &Claim) -> Grant {
        loop {
            let busy = match self.engine.claim(claim).await.expect("an answer") {
                Verdict::Granted(grant) => return grant,
                Verdict::Busy(busy) => busy,
            };
            let wait = tokio::time::timeout(busy.again_in, self.engine.wait(claim, &busy));
            if let Ok(Ok(Wake::Granted(grant))) = wait.await {
                return grant;
            }
        }
    }

    /// Releases the claim.
    pub(crate) async fn leave(&self, joined: JoinedClaim) {
        self.note(joined.number, What::ReleaseInvoked);
        let released = self.engine.release(&joined.claim).await.expect("an answer");
        assert_eq!(released, Released::Freed, "it held until here");
        self.note(joined.number, What::Released);
    }

    fn note(&self, number: u64, what: What) {
        self.recorder.note(self.tag, number, Some(&self.name), what);
    }
}

impl JoinedClaim {
    pub(crate) fn holds(&self) -> bool {
        self.waiting.is_finished()
    }

    /// Waits for its turn, and returns its token.
    pub(crate) async fn held(&mut self, patience: Duration) -> u64 {
        let grant = tokio::time::timeout(patience, &mut self.waiting).await.expect("its turn comes");
        // A finished task must not be awaited again.
        let grant = grant.expect("no panic");
        self.waiting = tokio::spawn(async move { grant });
        grant.token.expect("ZooKeeper has tokens")
    }
}
