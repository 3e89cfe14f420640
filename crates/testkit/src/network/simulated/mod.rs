//! An engine behind a bad network, for tests under paused time.

mod conditions;
mod network;
#[cfg(test)]
mod tests;

pub use conditions::Conditions;
pub use network::Network;

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::engine::{
    Busy, Claim, ClaimId, Engine, Filter, Grant, LockState, Released, Renewal, Revoke, Revoked, SharedCells,
    Valid, Verdict, Wake,
};
use latchwork::{Effect, Error, ErrorKind, Guarantees, LockName, Result};
use network::{Fate, Outcome};
use tokio::sync::oneshot;

/// Forwards every request to `inner` over a [`Network`], which may delay, duplicate or lose it. A request
/// that was sent arrives even if the caller is dropped, because a dropped future does not recall it.
///
/// It behaves like a server with a clock of its own: where `inner` returns the time at which a lease ends, it
/// returns the span that was left on the server's clock when the request took effect.
pub struct RemoteEngine<E> {
    inner: Arc<E>,
    network: Network,
    forget: Arc<dyn Fn(&LockName) + Send + Sync>,
    /// The client's clock, which need not agree with the server's.
    clock: Clock,
}

impl<E: Engine> RemoteEngine<E> {
    /// A client's connection to `inner`, over this network.
    pub fn new(inner: E, network: &Network) -> Self {
        let clock = inner.clock();
        Self { inner: Arc::new(inner), network: network.clone(), forget: Arc::new(|_| {}), clock }
    }

    /// Gives the client a clock of its own.
    pub fn on(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how the server forgets the holder of a lock, for [`Conditions::forgets`].
    pub fn forgetting(mut self, forget: impl Fn(&LockName) + Send + Sync + 'static) -> Self {
        self.forget = Arc::new(forget);
        self
    }

    /// Sends a request; the answer is that of `act`, if it arrives.
    async fn carry<T, F>(&self, verb: &str, lock: &LockName, act: impl Fn(Arc<E>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let fate = self.network.decide(verb, lock);
        if let Some(delay) = fate.duplicate {
            let (clock, arrives, effect) =
                (self.clock(), self.clock().now().after(delay), act(self.inner.clone()));
            tokio::spawn(async move {
                clock.sleep_until(arrives).await;
                drop(effect.await);
            });
        }
        let (sender, answer) = oneshot::channel();
        let forget = fate.forgets.then(|| (self.forget.clone(), lock.clone()));
        tokio::spawn(deliver(self.clock(), fate, act(self.inner.clone()), forget, sender));
        match answer.await {
            Ok(answer) => answer,
            Err(_) => pending().await,
        }
    }
}

type Forget = (Arc<dyn Fn(&LockName) + Send + Sync>, LockName);

/// Delivers one request and its answer. Without an answer, `sender` is dropped.
async fn deliver<T>(
    clock: Clock,
    fate: Fate,
    effect: impl Future<Output = T>,
    forget: Option<Forget>,
    sender: oneshot::Sender<Result<T>>,
) {
    sleep(clock, fate.request).await;
    let answer = match fate.outcome {
        Outcome::Vanished => return,
        Outcome::Refused => Err(failure("the connection broke before the request was sent", Effect::None)),
        Outcome::Answered | Outcome::Broken | Outcome::Silent => Ok(effect.await),
    };
    if let Some((forget, lock)) = forget {
        forget(&lock);
    }
    sleep(clock, fate.reply).await;
    let answer = match fate.outcome {
        Outcome::Silent => return,
        Outcome::Broken => Err(failure("the connection broke before the answer came", Effect::Unknown)),
        _ => answer,
    };
    // The caller may be gone.
    drop(sender.send(answer));
}

async fn sleep(clock: Clock, span: Duration) {
    clock.sleep_until(clock.now().after(span)).await;
}

fn failure(message: &'static str, effect: Effect) -> Error {
    Error::new(ErrorKind::Unreachable, message).with_effect(effect)
}

/// Converts the validity to a span from `now` on. A claim without an end has none on any clock.
fn left_of(valid: Valid, now: Moment) -> Valid {
    match valid {
        Valid::Until(Moment::NEVER) | Valid::For(_) => valid,
        Valid::Until(until) => Valid::For(until.since(now)),
    }
}

impl<E: Engine> Engine for RemoteEngine<E> {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn fork(&self) -> Result<Self> {
        Ok(Self {
            inner: Arc::new(self.inner.fork().await?),
            network: self.network.clone(),
            forget: self.forget.clone(),
            clock: self.clock,
        })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let ask = |inner: Arc<E>| {
            let claim = claim.clone();
            async move {
                let verdict = inner.claim(&claim).await?;
                Ok(match verdict {
                    Verdict::Granted(Grant { token, valid }) => {
                        Verdict::Granted(Grant { token, valid: left_of(valid, inner.clock().now()) })
                    }
                    busy => busy,
                })
            }
        };
        self.carry("claim", &claim.name, ask).await?
    }

    /// The server pushes when something happens; only that push can be lost or late.
    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        let wake = match self.inner.wait(claim, busy).await? {
            Wake::Granted(Grant { token, valid }) => {
                Wake::Granted(Grant { token, valid: left_of(valid, self.inner.clock().now()) })
            }
            recheck => recheck,
        };
        match self.network.decide_push(&claim.name) {
            Some(delay) => sleep(self.clock(), delay).await,
            None => pending().await,
        }
        Ok(wake)
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let Some(first) = claims.first() else { return Vec::new() };
        let ask = |inner: Arc<E>| {
            let claims = claims.to_vec();
            async move {
                let (answers, now) = (inner.renew(&claims).await, inner.clock().now());
                let kept = |renewal| match renewal {
                    Renewal::Kept(valid) => Renewal::Kept(left_of(valid, now)),
                    lost => lost,
                };
                answers.into_iter().map(|answer| answer.map(kept)).collect()
            }
        };
        match self.carry("renew", &first.name, ask).await {
            Ok(answers) => answers,
            Err(error) => claims.iter().map(|_| Err(failure("the batch failed", error.effect()))).collect(),
        }
    }

    async fn lost_hints(&self) -> Vec<ClaimId> {
        self.inner.lost_hints().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let ask = |inner: Arc<E>| {
            let claim = claim.clone();
            async move { inner.release(&claim).await }
        };
        self.carry("release", &claim.name, ask).await?
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
