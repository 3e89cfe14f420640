//! Unsupported requests are refused with the reason, before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Engine, Filter, Lifetime, Mode, Renewal};
use latchwork::{ErrorKind, OwnerId};
use testkit::harness::connect;

use super::harness::{LOCK, LONG, MemcachedHarness, claim, engine, granted};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_permits_owners_sessions_tokens_and_long_leases_are_refused_before_anything_is_sent() {
    let harness = MemcachedHarness::new();
    let (engine, client) = (engine(&harness.url("")).await, connect(&harness.url("")).await);
    let before = harness.proxy.requests();
    let with = |change: fn(&mut latchwork::engine::Claim)| {
        let mut claim = claim(LOCK, LONG);
        change(&mut claim);
        claim
    };
    for refused in [
        with(|claim| claim.mode = Mode::Read),
        with(|claim| claim.mode = Mode::Write),
        with(|claim| claim.mode = Mode::Permit { of: 2 }),
        with(|claim| claim.lifetime = Lifetime::Session),
        with(|claim| claim.owner = OwnerId::new("me").ok()),
    ] {
        let error = engine.claim(&refused).await.expect_err("it cannot");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("exclusive"), "{error}");
    }
    for (lock, says) in [
        (client.lock(LOCK).fenced(), ".fenced()"),
        (client.lock(LOCK).owner("me"), "owner"),
        (client.lock(LOCK).ttl(Duration::from_secs(31 * 86_400)), "max-ttl"),
        (client.lock(LOCK).ttl(Duration::from_secs(61)), "max-ttl"),
    ] {
        let error = lock.try_acquire().await.expect_err("it cannot");
        assert!(error.to_string().contains(says), "{says} in {error}");
    }
    let error = client.inspect(&Filter::Prefix(String::new())).await.expect_err("it cannot");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("name the lock"), "{error}");
    assert_eq!(harness.proxy.requests(), before, "nothing was sent");
    let guard = client.lock(LOCK).try_acquire().await.expect("an answer").expect("free");
    assert_eq!(guard.token().expect_err("there is none").kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_which_locks_could_collide_are_refused() {
    let harness = MemcachedHarness::with(&["-C"]);
    let error = latchwork::connect(&harness.direct_url("")).await.expect_err("the server keeps no CAS ids");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("without -C"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_claims_are_renewed_in_one_round_trip() {
    let harness = MemcachedHarness::new();
    let engine = engine(&harness.url("")).await;
    let claims: Vec<_> = (0..20).map(|number| Arc::new(claim(&format!("many/{number}"), LONG))).collect();
    for claim in &claims {
        granted(&engine, claim).await;
    }
    for _ in 0..3 {
        let before = harness.proxy.requests();
        for renewed in engine.renew(&claims).await {
            assert!(matches!(renewed, Ok(Renewal::Kept(_))), "{renewed:?}");
        }
        assert_eq!(harness.proxy.requests() - before, 1);
    }
    for claim in &claims {
        engine.release(claim).await.expect("an answer");
    }
}
