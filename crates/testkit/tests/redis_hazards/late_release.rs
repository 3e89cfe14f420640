//! A release that arrives when the lease has ended and another client holds the lock.

use std::time::Duration;

use latchwork::Loss;
use latchwork::engine::{Engine, Released, Renewal};
use nix::sys::signal::Signal;
use testkit::network::proxy::Proxy;
use testkit::scripted_process::{Api, ScriptedProcess};

use super::claims::{busy, granted, granted_soon, renewed, trying};
use super::harness::{HazardHarness, LOCK, LONG, engine, pause, take, until, url, with_both};

const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn naive_a_late_del_frees_the_lock_of_the_next_holder() {
    let harness = HazardHarness::new();
    let [mut late, mut next, mut third] = [harness.naive(), harness.naive(), harness.naive()];
    assert!(late.set_nx_px(LOCK, "late", 100));
    until("its lease is over", || next.set_nx_px(LOCK, "next", 60_000)).await;
    assert!(late.del(LOCK));
    assert!(third.set_nx_px(LOCK, "third", 60_000), "beside the next holder, which continues");
}

#[tokio::test]
async fn a_late_release_and_a_late_renewal_have_no_effect() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let [late, next, third] =
            [harness.engine(options).await, harness.engine(options).await, harness.engine(options).await];
        let (late_claim, next_claim) = (trying(SHORT), trying(LONG));
        granted(&late, &late_claim).await;
        granted_soon(&next, &next_claim).await;
        let left = harness.pttl(LOCK);
        assert_eq!(renewed(&late, &late_claim).await, Renewal::Lost(Loss::Removed));
        for _ in 0..2 {
            assert_eq!(late.release(&late_claim).await.expect("it answers"), Released::NotHeld);
        }
        assert_eq!(harness.value(LOCK), Some(next_claim.id.to_string()));
        assert!(harness.pttl(LOCK) <= left, "the lease of the next holder is unchanged");
        busy(&third, &trying(LONG)).await;
        assert_eq!(next.release(&next_claim).await.expect("it answers"), Released::Freed);
    })
    .await;
}

#[tokio::test]
async fn a_holder_that_was_stopped_past_its_lease_does_no_harm_when_it_continues() {
    let harness = HazardHarness::new();
    let client = harness.client("").await;
    let mut late = ScriptedProcess::start(&harness.url(""), Api::Blocking);
    assert!(late.ask(&format!("hold {LOCK} 300")).await.starts_with("held"));
    late.signal(Signal::SIGSTOP);
    late.tell(&format!("release {LOCK}")).await;
    let next = take(&client, LONG).await;
    let value = harness.value(LOCK);
    late.signal(Signal::SIGCONT);
    let error = late.answer().await;
    assert!(error.starts_with("Lost: "), "{error}");
    assert!(value.is_some() && harness.value(LOCK) == value);
    next.release().await.expect("the lock was held to the end");
}

#[tokio::test]
async fn naive_a_lock_that_changes_hands_between_the_check_and_the_del_is_deleted() {
    let harness = HazardHarness::new();
    let [mut late, mut next, mut third] = [harness.naive(), harness.naive(), harness.naive()];
    // Long enough for the check to be in time on a machine that stalls in between.
    assert!(late.set_nx_px(LOCK, "late", 1_500));
    assert_eq!(late.get(LOCK).as_deref(), Some("late"), "still mine, so I may delete it");
    until("its lease is over", || next.set_nx_px(LOCK, "next", 60_000)).await;
    assert!(late.del(LOCK));
    assert!(third.set_nx_px(LOCK, "third", 60_000), "beside the next holder, which continues");
}

/// Each request takes so long that a release of two requests would read before the lease ends, and delete
/// after that. The first request arrives half of that time before the end, even on a machine that stalls for
/// half a second.
async fn released_over_a_slow_network(options: &str) {
    const WAY: Duration = Duration::from_millis(1_400);
    const TTL: Duration = Duration::from_millis(3_200);
    let harness = HazardHarness::new();
    let proxy = Proxy::to(harness.server.address());
    let late = engine(&url(proxy.address().port(), options)).await;
    let next = harness.engine(options).await;
    let (late_claim, next_claim) = (trying(TTL), trying(LONG));
    granted(&late, &late_claim).await;
    proxy.delay(WAY);
    let before = proxy.requests();
    let releasing = async {
        pause((TTL - WAY - WAY / 2).as_millis() as u64).await;
        late.release(&late_claim).await.expect("it answers")
    };
    let (released, _) = tokio::join!(releasing, granted_soon(&next, &next_claim));
    assert_eq!(released, Released::Freed, "it came in time");
    assert_eq!(proxy.requests() - before, 1, "one request");
    // For anything else that may be in transit.
    pause((WAY * 3 / 2).as_millis() as u64).await;
    assert_eq!(harness.value(LOCK), Some(next_claim.id.to_string()));
}

#[tokio::test]
async fn a_lock_that_changes_hands_during_a_release_stays_with_the_next_holder() {
    with_both(released_over_a_slow_network).await;
}
