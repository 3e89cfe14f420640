//! A client that crashes while it acquires a lock.

use std::time::Duration;

use latchwork::clock::random_bytes;
use latchwork::engine::Engine;
use latchwork::{Client, Effect};
use testkit::network::proxy::Proxy;
use testkit::worker_process::WorkerProcess;

use super::claims::trying;
use super::harness::{
    HazardHarness, LOCK, LONG, SHARED, engine, holding_process, pause, take, url, with_both,
};

/// Enough time for a busy machine to renew it.
const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn naive_a_crash_between_setnx_and_expire_leaves_a_lock_for_ever() {
    let harness = HazardHarness::new();
    let mut crashing = harness.naive();
    assert!(crashing.setnx(LOCK, "crashing"));
    drop(crashing); // It meant to send EXPIRE next.
    pause(TTL.as_millis() as u64).await;
    assert_eq!(harness.pttl(LOCK), -1, "the lock never expires");
    assert!(!harness.naive().setnx(LOCK, "rival"));
}

/// A waiter gets the lock when the lease of the dead holder has ended, and not before.
async fn comes_free_by_itself(harness: &HazardHarness, client: &Client) {
    let left = harness.pttl(LOCK);
    assert!((1..=TTL.as_millis() as i64).contains(&left), "{left}");
    assert!(client.lock(LOCK).try_acquire().await.expect("the engine answers").is_none(), "not before");
    take(client, LONG).await.release().await.expect("held");
}

#[tokio::test]
async fn a_holder_that_is_killed_leaves_a_lock_that_ends() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let client = harness.client(options).await;
        holding_process(&harness.url(options), TTL).await.kill().await;
        comes_free_by_itself(&harness, &client).await;
    })
    .await;
}

/// The server granted the lock, and the client was gone before it got the reply.
#[tokio::test]
async fn a_client_that_is_cut_off_between_request_and_reply_leaves_a_lock_that_ends() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let proxy = Proxy::to(harness.server.address());
        let crashing = engine(&url(proxy.address().port(), options)).await;
        let client = harness.client(options).await;
        proxy.lose_reply_to(b"EVALSHA");
        let error = crashing.claim(&trying(TTL)).await.expect_err("the reply is lost");
        assert_eq!((error.effect(), proxy.lost_replies()), (Effect::Unknown, 1));
        drop(crashing);
        comes_free_by_itself(&harness, &client).await;
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_killed_at_any_moment_leaves_only_locks_that_end() {
    const KILLS: usize = 6;
    for options in SHARED {
        let harness = HazardHarness::new();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let history = folder.path().join("history").display().to_string();
        for kill in 0..KILLS {
            // A name of its own each time: the previous lease continues.
            let name = format!("churn-{kill}");
            let mut worker = WorkerProcess::start(&["churn", &harness.url(options), &name, &history]);
            assert_eq!(worker.line().await, "started");
            let [millis] = random_bytes();
            pause(20 + u64::from(millis) / 4).await;
            worker.kill().await;
            let endless: Vec<_> = harness.keys().into_iter().filter(|key| harness.pttl(key) == -1).collect();
            assert!(endless.is_empty(), "{endless:?} after kill {kill} with {options}");
        }
        assert!(harness.keys().len() > KILLS, "too little happened to show anything");
    }
}

#[tokio::test]
async fn naive_work_that_takes_longer_than_the_lease_has_two_holders() {
    let harness = HazardHarness::new();
    let [mut worker, mut rival] = [harness.naive(), harness.naive()];
    assert!(worker.set_nx_px(LOCK, "worker", 100));
    pause(200).await; // It still works.
    assert!(rival.set_nx_px(LOCK, "rival", 100), "now there are two holders");
}

#[tokio::test]
async fn work_that_takes_three_times_as_long_as_the_lease_has_one_holder() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let [worker, rival] = [harness.client(options).await, harness.client(options).await];
        let guard = take(&worker, TTL).await;
        let value = harness.value(LOCK);
        for _ in 0..30 {
            pause(TTL.as_millis() as u64 / 10).await;
            assert!(!harness.naive().set_nx_px(LOCK, "foreign", 100));
            assert!(rival.lock(LOCK).try_acquire().await.expect("the engine answers").is_none());
        }
        assert!(guard.is_certain() && harness.value(LOCK) == value, "it was renewed, not taken again");
        guard.release().await.expect("the lock was held to the end");
        assert_eq!(harness.value(LOCK), None);
    })
    .await;
}

/// Renewed by a live holder, the same lock becomes free when its holder is stopped.
#[tokio::test]
async fn no_client_renews_the_lock_of_a_dead_holder() {
    let harness = HazardHarness::new();
    let client = harness.client("").await;
    let mut holder = holding_process(&harness.url(""), TTL).await;
    pause(3 * TTL.as_millis() as u64).await;
    assert!(harness.pttl(LOCK) > 0, "renewed while it lives");
    holder.kill().await;
    comes_free_by_itself(&harness, &client).await;
}
