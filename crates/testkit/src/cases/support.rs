//! Helpers that the cases share.

use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::engine::{Busy, Claim, Engine, Filter, Grant, Revoke, Valid, Verdict};
use latchwork::{Client, Guard, LockName, Loss, Token};

use crate::Fixture;

/// A lease for cases in which no lease expires.
pub(super) const LONG: Duration = Duration::from_secs(20);

pub(super) fn name(text: &str) -> LockName {
    LockName::new(text).expect("a good name")
}

/// A claim that waits.
pub(super) fn waiting(lock: &str, ttl: Duration) -> Claim {
    let mut claim = Claim::new(name(lock), ttl);
    claim.wait_lease = ttl.min(Duration::from_secs(3));
    claim
}

/// A claim that only tries.
pub(super) fn trying(lock: &str, ttl: Duration) -> Claim {
    Claim::new(name(lock), ttl)
}

pub(super) async fn granted(engine: &impl Engine, claim: &Claim) -> Grant {
    match engine.claim(claim).await.expect("the engine answers") {
        Verdict::Granted(grant) => grant,
        Verdict::Busy(busy) => panic!("{:?} is busy: {busy:?}", claim.name),
    }
}

/// Retries the claim until it is granted after a lease has just ended: some servers take a while to notice.
pub(super) async fn granted_soon(engine: &impl Engine, claim: &Claim) -> Grant {
    let end = engine.clock().now().after(Duration::from_secs(4));
    loop {
        match engine.claim(claim).await.expect("the engine answers") {
            Verdict::Granted(grant) => return grant,
            Verdict::Busy(busy) => assert!(engine.clock().now() < end, "{:?} is busy: {busy:?}", claim.name),
        }
        pause(10).await;
    }
}

pub(super) async fn busy(engine: &impl Engine, claim: &Claim) -> Busy {
    match engine.claim(claim).await.expect("the engine answers") {
        Verdict::Busy(busy) => busy,
        Verdict::Granted(grant) => panic!("{:?} was granted: {grant:?}", claim.name),
    }
}

/// The end of a grant's validity, if its request was sent at `sent`.
pub(super) fn told_until(grant: &Grant, sent: Moment) -> Moment {
    match grant.valid {
        Valid::For(span) => sent.after(span),
        Valid::Until(moment) => moment,
    }
}

/// The guard's token, if every grant has one.
pub(super) fn token(has_tokens: bool, guard: &Guard) -> Option<Token> {
    has_tokens.then(|| guard.token().expect("tokens"))
}

/// Whether the later token is the greater one; true if the fixture has no tokens.
pub(super) fn rose<T: PartialOrd>(has_tokens: bool, before: Option<T>, after: Option<T>) -> bool {
    match has_tokens {
        true => before.is_some() && after > before,
        false => before.is_none() && after.is_none(),
    }
}

/// The loss that a holder sees when its claim was removed.
pub(super) fn removed<F: Fixture>() -> Loss {
    if F::IS_A_CONNECTION { Loss::SessionEnded } else { Loss::Removed }
}

/// The loss that a holder sees when its lock was revoked at once.
pub(super) fn revoked_now<F: Fixture>() -> Loss {
    if F::guarantees().tells_revocations { Loss::Revoked } else { removed::<F>() }
}

/// The mildest revocation that the engine supports, and the loss that its holder sees.
pub(super) fn revocation<F: Fixture>() -> (Revoke, Loss) {
    match F::IS_A_CONNECTION {
        true => (Revoke::Now, Loss::SessionEnded),
        false => (Revoke::AtLeaseEnd, Loss::Revoked),
    }
}

pub(super) async fn hold(client: &Client, lock: &str) -> Guard {
    client.lock(lock).ttl(LONG).acquire().await.expect("the lock becomes free")
}

/// Waits until neither the engine nor the client has any record of this lock: background work takes a moment.
pub(super) async fn nothing_left(client: &Client, lock: &str) {
    let filter = Filter::Name(name(lock));
    let clock = Clock::boottime();
    let patience = clock.now().after(Duration::from_secs(10));
    loop {
        let found = client.inspect(&filter).await.expect("the engine answers");
        if found.is_empty()
            && let Some(guard) = client.lock(lock).try_acquire().await.expect("the engine answers")
        {
            return guard.release().await.expect("held");
        }
        assert!(clock.now() < patience, "left behind: {found:?}");
        pause(2).await;
    }
}

pub(super) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Waits until `lock` has this many waiters. Without a queue, waiters cannot be listed and their order makes
/// no difference: there it is enough that they most likely wait.
pub(super) async fn waiters(client: &Client, lock: &str, count: usize) {
    if !client.guarantees().fair {
        return pause(100).await;
    }
    let filter = Filter::Name(name(lock));
    loop {
        let found = client.inspect(&filter).await.expect("the engine answers");
        if found.iter().map(|lock| lock.waiters.len()).sum::<usize>() == count {
            return;
        }
        pause(1).await;
    }
}
