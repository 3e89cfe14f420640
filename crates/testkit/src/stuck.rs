//! An engine that blocks the thread it is asked to renew on.

use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::{
    Busy, Claim, Engine, Filter, LockState, Released, Renewal, Revoke, Revoked, Verdict, Wake,
};
use latchwork::{Guarantees, Result};

/// Renews only after its thread was blocked for some time: a system call that hangs, a page that is swapped out.
pub struct Stuck<E> {
    inner: E,
    blocked_for: Duration,
}

impl<E> Stuck<E> {
    /// Blocks for this long at every renewal.
    pub fn new(inner: E, blocked_for: Duration) -> Self {
        Self { inner, blocked_for }
    }
}

impl<E: Engine> Engine for Stuck<E> {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn fork(&self) -> Result<Self> {
        Ok(Self::new(self.inner.fork().await?, self.blocked_for))
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.inner.claim(claim).await
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        self.inner.wait(claim, busy).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        std::thread::sleep(self.blocked_for);
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
