//! Claims for tests that call the engine without the core.

use std::sync::Arc;
use std::time::Duration;

use latchwork::LockName;
use latchwork::engine::{Busy, Claim, Engine, Grant, Renewal, Verdict};

use super::harness::{LOCK, until_some};

/// A claim that only tries.
pub(crate) fn trying(ttl: Duration) -> Claim {
    Claim::new(LockName::new(LOCK).expect("a good name"), ttl)
}

/// A claim that enters the queue, for as long as its lease will be.
pub(crate) fn waiting(ttl: Duration) -> Claim {
    let mut claim = trying(ttl);
    claim.wait_lease = ttl;
    claim
}

/// Claims, and expects a grant.
pub(crate) async fn granted(engine: &impl Engine, claim: &Claim) -> Grant {
    match engine.claim(claim).await.expect("the engine answers") {
        Verdict::Granted(grant) => grant,
        Verdict::Busy(busy) => panic!("not granted but {busy:?}"),
    }
}

/// Claims, and expects that another client has the lock.
pub(crate) async fn busy(engine: &impl Engine, claim: &Claim) -> Busy {
    match engine.claim(claim).await.expect("the engine answers") {
        Verdict::Busy(busy) => busy,
        Verdict::Granted(grant) => panic!("granted {grant:?}"),
    }
}

/// Claims until it is granted.
pub(crate) async fn granted_soon(engine: &impl Engine, claim: &Claim) -> Grant {
    until_some("it is granted", async || match engine.claim(claim).await.expect("the engine answers") {
        Verdict::Granted(grant) => Some(grant),
        Verdict::Busy(_) => None,
    })
    .await
}

/// Renews one claim.
pub(crate) async fn renewed(engine: &impl Engine, claim: &Claim) -> Renewal {
    engine.renew(&[Arc::new(claim.clone())]).await.remove(0).expect("the engine answers")
}
