//! Replies are lost, or late.

use std::time::Duration;

use super::harness::{LOCK, LONG, RedlockHarness, SOON, now, pairs, pause, take};
use super::scripts::{REDLOCK_RELEASE, source};

/// Longer than a busy machine takes for a reply.
const OPTIONS: &str = "quarantine=off&node-timeout=200ms";

/// Nothing is left of what two masters did without their replies being received.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_of_any_two_masters_leave_nothing_behind() {
    let harness = RedlockHarness::new();
    let client = harness.client(OPTIONS).await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    for pair in pairs() {
        let lose = || pair.iter().for_each(|at| harness.proxies[*at].lose_next_reply());
        lose();
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        // Lost connections have been reopened; otherwise the next reply would not be one to the release.
        harness.until_keys(LOCK, 5, SOON).await;
        lose();
        guard.release().await.expect("held");
        harness.until_keys(LOCK, 0, SOON).await;
    }
    harness.judge(&[client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_replies_of_any_two_masters_are_not_awaited_and_leave_nothing_behind() {
    let harness = RedlockHarness::new();
    let (client, rival) = (harness.client(OPTIONS).await, harness.client(OPTIONS).await);
    for pair in pairs() {
        let delay = |millis| {
            pair.iter().for_each(|at| harness.proxies[*at].delay(Duration::from_millis(millis)));
        };
        delay(400);
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        assert!(rival.lock(LOCK).try_acquire().await.expect("a majority answers").is_none());
        guard.release().await.expect("held");
        delay(0);
        harness.until_keys(LOCK, 0, SOON).await;
    }
    pause(1_000).await;
    harness.until_keys(LOCK, 0, SOON).await;
    harness.judge(&[client, rival]).await;
}

/// A master that lost the scripts is sent their texts; but not that of an abandoned claim, whose release it
/// has answered already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_master_that_lost_the_scripts_gets_no_claim_after_its_release() {
    let harness = RedlockHarness::new();
    let client = harness.client(OPTIONS).await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    harness.until_keys(LOCK, 0, SOON).await;
    let late = &harness.masters[0];
    late.command(&["SCRIPT", "FLUSH"]);
    late.command(&["SCRIPT", "LOAD", &source(REDLOCK_RELEASE)]);
    let (by_digest, by_text) = (late.calls(&["evalsha"]), late.calls(&["eval"]));
    harness.proxies[0].delay(Duration::from_millis(400));
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    let end = now().after(SOON);
    while late.calls(&["evalsha"]) < by_digest + 2 {
        assert!(now() < end, "claim and release were forwarded");
        pause(10).await;
    }
    pause(1_000).await;
    assert_eq!(late.calls(&["eval"]), by_text, "the claim came behind its release");
    assert_eq!(harness.keys(LOCK), 0);
    harness.proxies[0].delay(Duration::ZERO);
    harness.judge(&[client]).await;
}

/// Four clients that contend at the same time, on an even number of masters, where votes can be split evenly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_votes_end_even_with_four_masters() {
    let harness = RedlockHarness::new();
    let places: Vec<_> = harness.proxies[..4].iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("redlock://{}?quarantine=off&node-timeout=200ms", places.join(","));
    let warnings = latchwork::connect(&url).await.expect("the process runs").guarantees().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("odd number")), "{warnings:?}");
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(harness.connect(&url).await);
    }
    let turns = clients.iter().map(|client| {
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        tokio::spawn(async move {
            for _ in 0..10 {
                lock.clone().acquire().await.expect("its turn comes").release().await.expect("held");
            }
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await.expect("no panic");
    }
    let judged = harness.judge(&clients).await;
    assert!(judged.exclusive() >= 40);
}
