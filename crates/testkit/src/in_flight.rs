//! An engine whose claims are under way for a while, as on a slow connection, and arrive whatever becomes of the caller.

use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::{
    Busy, Claim, Engine, Filter, LockState, Released, Renewal, Revoke, Revoked, Verdict, Wake,
};
use latchwork::{Guarantees, Result};

/// Delays the claims of `inner`, and only them: a release that is sent blind overtakes a claim under way.
pub struct InFlight<E> {
    inner: Arc<E>,
    delay: Duration,
}

impl<E> InFlight<E> {
    /// Claims of `inner` take this long to arrive.
    pub fn new(inner: E, delay: Duration) -> Self {
        Self { inner: Arc::new(inner), delay }
    }
}

impl<E: Engine> Engine for InFlight<E> {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn fork(&self) -> Result<Self> {
        Ok(Self { inner: Arc::new(self.inner.fork().await?), delay: self.delay })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let (inner, claim, delay) = (self.inner.clone(), claim.clone(), self.delay);
        let sent = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            inner.claim(&claim).await
        });
        sent.await.expect("no panic")
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        self.inner.wait(claim, busy).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.inner.renew(claims).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.inner.release(claim).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inner.inspect(filter).await
    }

    async fn revoke(&self, state: &LockState, how: Revoke) -> Result<Revoked> {
        self.inner.revoke(state, how).await
    }
}
