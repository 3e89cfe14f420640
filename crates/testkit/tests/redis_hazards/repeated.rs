//! Requests whose replies are lost, and requests that arrive late.

use std::time::Duration;

use latchwork::Effect;
use latchwork::engine::{Engine, Released};
use testkit::network::proxy::Proxy;

use super::claims::{granted, granted_soon, trying};
use super::harness::{HazardHarness, LOCK, LONG, SOON, engine, take, until, url, with_both};

/// Short enough to wait for its end. The work under it finishes in time on a machine that stalls for half a
/// second.
const SHORT: Duration = Duration::from_millis(1_500);

/// The newest granted token.
fn newest_token(harness: &HazardHarness) -> u64 {
    let fence = harness.value(&format!("{{{LOCK}}}:latchwork1:f")).expect("there was a grant");
    fence[..16].parse().expect("a token stands first")
}

/// A reentrant lock, which counts.
#[test]
fn naive_a_claim_that_is_retried_after_a_lost_reply_is_never_released() {
    let harness = HazardHarness::new();
    let mut client = harness.naive();
    assert_eq!(client.ask(&["HINCRBY", LOCK, "owner", "1"]).integer(), 1); // Whose reply is lost.
    client.ask(&["HINCRBY", LOCK, "owner", "1"]);
    assert_eq!(client.ask(&["HINCRBY", LOCK, "owner", "-1"]).integer(), 1, "released once, and still held");
}

#[tokio::test]
async fn a_claim_that_is_retried_after_a_lost_reply_is_the_same() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let proxy = Proxy::to(harness.server.address());
        let (engine, claim) = (engine(&url(proxy.address().port(), options)).await, trying(LONG));
        for lost in 1..=2 {
            proxy.lose_reply_to(b"EVALSHA");
            assert_eq!(engine.claim(&claim).await.expect_err("lost").effect(), Effect::Unknown);
            assert_eq!(proxy.lost_replies(), lost);
        }
        let token = newest_token(&harness);
        assert_eq!(granted(&engine, &claim).await.token, Some(token), "the grant of the first");
        proxy.lose_reply_to(b"EVALSHA");
        engine.release(&claim).await.expect_err("lost");
        assert_eq!(harness.value(LOCK), None, "one release is enough");
        assert_eq!(engine.release(&claim).await.expect("it answers"), Released::NotHeld);
    })
    .await;
}

#[tokio::test]
async fn a_waiter_does_not_wait_for_its_own_former_claim() {
    let harness = HazardHarness::new();
    let proxy = Proxy::to(harness.server.address());
    let client = latchwork::connect(&url(proxy.address().port(), ""))
        .await
        .expect("the server accepts the connection");
    proxy.lose_reply_to(b"EVALSHA");
    let guard = take(&client, LONG).await;
    assert_eq!(proxy.lost_replies(), 1);
    assert_eq!(newest_token(&harness), guard.token().expect("redis has tokens").engine_token());
    guard.release().await.expect("held");
    assert_eq!(harness.value(LOCK), None);
}

/// Compares before it deletes, but every hold of one process has the same value.
#[tokio::test]
async fn naive_a_release_that_arrives_late_frees_the_next_hold_of_the_same_process() {
    const RELEASE: &str =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    let harness = HazardHarness::new();
    let [mut process, mut other] = [harness.naive(), harness.naive()];
    assert!(process.set_nx_px(LOCK, "host-1", 100));
    // Its release is in transit for so long that the lease ends, and it acquires the lock again.
    until("the lease ends", || process.set_nx_px(LOCK, "host-1", 60_000)).await;
    assert_eq!(process.ask(&["EVAL", RELEASE, "1", LOCK, "host-1"]).integer(), 1);
    assert!(other.set_nx_px(LOCK, "other", 60_000), "beside the process, which continues");
}

#[tokio::test]
async fn a_release_that_arrives_late_does_not_touch_the_next_hold_of_the_same_process() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let proxy = Proxy::to(harness.server.address());
        let (slow, quick) =
            (engine(&url(proxy.address().port(), options)).await, harness.engine(options).await);
        let (first, second) = (trying(SHORT), trying(LONG));
        granted(&slow, &first).await;
        proxy.black_hole(true);
        let taking = async {
            granted_soon(&quick, &second).await;
            proxy.black_hole(false);
        };
        let (released, ()) = tokio::join!(slow.release(&first), taking);
        assert_eq!(released.expect("it answers"), Released::NotHeld);
        assert_eq!(harness.value(LOCK), Some(second.id.to_string()));
    })
    .await;
}

/// The claim was abandoned and released before it arrived: no client holds that lock.
#[tokio::test]
async fn an_abandoned_claim_that_arrives_late_ends_by_itself() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let proxy = Proxy::to(harness.server.address());
        let (slow, quick) =
            (engine(&url(proxy.address().port(), options)).await, harness.engine(options).await);
        let (claim, before) = (trying(SHORT), proxy.requests());
        proxy.black_hole(true);
        assert!(tokio::time::timeout(SHORT, slow.claim(&claim)).await.is_err(), "no server answers");
        assert_eq!(proxy.requests() - before, 1, "the request is in transit");
        assert_eq!(quick.release(&claim).await.expect("it answers"), Released::NotHeld);
        proxy.black_hole(false);
        until("it arrives", || harness.value(LOCK).is_some()).await;
        assert!((1..=SHORT.as_millis() as i64).contains(&harness.pttl(LOCK)));
        let next = harness.client(options).await.lock(LOCK).wait(SOON).acquire().await;
        next.expect("its lease ends").release().await.expect("held");
    })
    .await;
}
