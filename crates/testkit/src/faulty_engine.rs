//! An engine whose requests fail as a test orders.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::{
    Busy, Claim, ClaimId, Engine, Filter, LockState, Released, Renewal, Revoke, Revoked, SharedCells,
    Verdict, Wake,
};
use latchwork::{Effect, Error, ErrorKind, Guarantees, Result};
use tokio::task::JoinHandle;

/// The faults of an engine's requests; they may be changed while the engine is used.
#[derive(Default)]
pub struct EngineFaults {
    claim: Mutex<Option<ClaimFault>>,
    release_fails: AtomicBool,
    renewal_blocks: Mutex<Duration>,
    renewal_fails: AtomicBool,
    claims: AtomicU32,
    arrived: AtomicU32,
    releases: AtomicU32,
    renewals: AtomicU32,
    renewed: AtomicU32,
}

/// The fault of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimFault {
    /// The claim is not sent.
    Refused,
    /// The claim takes effect and its reply is lost.
    ReplyLost,
    /// The reply is lost, and the claim takes effect this much later.
    ArrivesLate(Duration),
    /// The claim takes this long and arrives even if the caller is dropped: a release that is sent blind
    /// overtakes it.
    Slow(Duration),
}

impl EngineFaults {
    /// Sets the fault of all claims from now on.
    pub fn claim(&self, fault: Option<ClaimFault>) {
        *self.claim.lock().expect("no thread panicked while holding the lock") = fault;
    }

    /// Makes releases fail from now on, or stops doing so.
    pub fn release(&self, fails: bool) {
        self.release_fails.store(fails, Ordering::Relaxed);
    }

    /// Makes every renewal block its thread for this long, as a system call that hangs or a page that is
    /// swapped out does.
    pub fn renewal_blocks(&self, span: Duration) {
        *self.renewal_blocks.lock().expect("no thread panicked while holding the lock") = span;
    }

    /// Makes renewals fail from now on, as if the server were down.
    pub fn renewal_fails(&self) {
        self.renewal_fails.store(true, Ordering::Relaxed);
    }

    /// The number of renewal requests, and the total number of claims in them.
    pub fn renewals(&self) -> (u32, u32) {
        (self.renewals.load(Ordering::Relaxed), self.renewed.load(Ordering::Relaxed))
    }

    /// The number of claim requests.
    pub fn claims(&self) -> u32 {
        self.claims.load(Ordering::Relaxed)
    }

    /// The number of late claims that have arrived and were executed.
    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// The number of release requests.
    pub fn releases(&self) -> u32 {
        self.releases.load(Ordering::Relaxed)
    }
}

/// An engine that injects `faults` into the requests to `inner`.
pub struct FaultyEngine<E> {
    inner: Arc<E>,
    faults: Arc<EngineFaults>,
}

impl<E> FaultyEngine<E> {
    /// An engine without faults, and the handle to inject them.
    pub fn new(inner: E) -> (Self, Arc<EngineFaults>) {
        let faults = Arc::<EngineFaults>::default();
        (Self { inner: Arc::new(inner), faults: faults.clone() }, faults)
    }
}

impl<E: Engine> FaultyEngine<E> {
    fn send(&self, claim: &Claim, arrives_after: Duration) -> JoinHandle<Result<Verdict>> {
        let (inner, faults, claim) = (self.inner.clone(), self.faults.clone(), claim.clone());
        tokio::spawn(async move {
            tokio::time::sleep(arrives_after).await;
            let answer = inner.claim(&claim).await;
            faults.arrived.fetch_add(1, Ordering::Relaxed);
            answer
        })
    }
}

fn failure(effect: Effect) -> Error {
    Error::new(ErrorKind::Unreachable, "the connection broke").with_effect(effect)
}

impl<E: Engine> Engine for FaultyEngine<E> {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn fork(&self) -> Result<Self> {
        Ok(Self { inner: Arc::new(self.inner.fork().await?), faults: self.faults.clone() })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.faults.claims.fetch_add(1, Ordering::Relaxed);
        let fault = *self.faults.claim.lock().expect("no thread panicked while holding the lock");
        match fault {
            None => self.inner.claim(claim).await,
            Some(ClaimFault::Refused) => Err(failure(Effect::None)),
            Some(ClaimFault::ReplyLost) => {
                let _lost = self.inner.claim(claim).await?;
                Err(failure(Effect::Unknown))
            }
            Some(ClaimFault::ArrivesLate(by)) => {
                drop(self.send(claim, by));
                Err(failure(Effect::Unknown))
            }
            Some(ClaimFault::Slow(by)) => self.send(claim, by).await.expect("no panic"),
        }
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        self.inner.wait(claim, busy).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let blocked = *self.faults.renewal_blocks.lock().expect("no thread panicked while holding the lock");
        std::thread::sleep(blocked);
        self.faults.renewals.fetch_add(1, Ordering::Relaxed);
        self.faults.renewed.fetch_add(claims.len() as u32, Ordering::Relaxed);
        if self.faults.renewal_fails.load(Ordering::Relaxed) {
            return claims.iter().map(|_| Err(failure(Effect::Unknown))).collect();
        }
        self.inner.renew(claims).await
    }

    async fn lost_hints(&self) -> Vec<ClaimId> {
        self.inner.lost_hints().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.faults.releases.fetch_add(1, Ordering::Relaxed);
        if self.faults.release_fails.load(Ordering::Relaxed) {
            return Err(failure(Effect::None));
        }
        self.inner.release(claim).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inner.inspect(filter).await
    }

    async fn revoke(&self, state: &LockState, how: Revoke) -> Result<Revoked> {
        self.inner.revoke(state, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        self.inner.cells()
    }
}
