//! An engine that records the core's requests to another engine.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use latchwork::clock::Clock;
use latchwork::engine::{
    Busy, Claim, ClaimId, Engine, Filter, LockState, Released, Renewal, Revoke, Revoked, SharedCells,
    Verdict, Wake,
};
use latchwork::{Guarantees, LockName, Result};

/// One request or answer, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// `claim` was sent.
    Claim(LockName, ClaimId),
    /// `claim` was answered; true if the engine now keeps a record of the claim: the lock, or a place in the
    /// queue.
    Claimed(LockName, ClaimId, bool),
    /// `release` was sent.
    Release(LockName, ClaimId),
    /// `release` was answered.
    Released(LockName, ClaimId),
    /// A loss was reported.
    Lost(LockName, ClaimId),
}

/// The greatest number of claims that the engine kept at one time, and their total number.
pub fn claims(events: &[EngineEvent]) -> (usize, usize) {
    let (mut out, mut all, mut most) = (HashSet::new(), HashSet::new(), 0);
    for event in events {
        match event {
            EngineEvent::Claim(_, id) => {
                out.insert(*id);
                all.insert(*id);
            }
            EngineEvent::Released(_, id) => drop(out.remove(id)),
            _ => {}
        }
        most = most.max(out.len());
    }
    (most, all.len())
}

/// Forwards every request to `inner` and records it.
pub struct RecordingEngine<E> {
    inner: E,
    events: Arc<Mutex<Vec<EngineEvent>>>,
}

impl<E> RecordingEngine<E> {
    /// Records the requests to `inner`.
    pub fn new(inner: E) -> Self {
        Self { inner, events: Arc::default() }
    }

    /// The record, which continues to grow.
    pub fn events(&self) -> Arc<Mutex<Vec<EngineEvent>>> {
        self.events.clone()
    }

    fn note(&self, event: EngineEvent) {
        self.events.lock().expect("no thread panicked while recording").push(event);
    }
}

impl<E: Engine> Engine for RecordingEngine<E> {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    async fn fork(&self) -> Result<Self> {
        Ok(Self { inner: self.inner.fork().await?, events: self.events.clone() })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.note(EngineEvent::Claim(claim.name.clone(), claim.id));
        let answer = self.inner.claim(claim).await;
        let only_tried = matches!(answer, Ok(Verdict::Busy(_))) && claim.wait_lease.is_zero();
        self.note(EngineEvent::Claimed(claim.name.clone(), claim.id, !only_tried));
        answer
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        self.inner.wait(claim, busy).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let answers = self.inner.renew(claims).await;
        for (claim, answer) in claims.iter().zip(&answers) {
            if let Ok(Renewal::Lost(_)) = answer {
                self.note(EngineEvent::Lost(claim.name.clone(), claim.id));
            }
        }
        answers
    }

    async fn lost_hints(&self) -> Vec<ClaimId> {
        self.inner.lost_hints().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.note(EngineEvent::Release(claim.name.clone(), claim.id));
        let answer = self.inner.release(claim).await;
        if answer.is_ok() {
            self.note(EngineEvent::Released(claim.name.clone(), claim.id));
        }
        answer
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
