//! The connection breaks in the middle of a request: before the server got it, or after it acted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::history::{Fault, RecordedClient};

use super::harness::{LOCK, LONG, MemcachedHarness, SOON, now, pause, take, wait_for_renewal};

/// The text of requests that store, and of those that delete.
const STORE: &[u8] = b"ms orders/42";
const DELETE: &[u8] = b"md orders/42";
/// Renewed often, and much longer than it takes to detect a lost reply.
const TTL: Duration = Duration::from_secs(3);

/// Acquires the lock without waiting for a lease to end.
async fn assert_free_at_once(client: &RecordedClient) {
    let begun = now();
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    let waited = now().since(begun);
    assert!(waited < Duration::from_secs(2), "the waiter was stuck for {waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_finds_its_own_grant() {
    let harness = MemcachedHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    for only_try in [false, true] {
        harness.inject(Fault::Partition, || harness.proxy.lose_reply_to(STORE));
        let lock = client.lock(LOCK).ttl(LONG);
        let guard = match only_try {
            false => lock.acquire().await.expect("the claim's own grant"),
            true => lock.try_acquire().await.expect("an answer").expect("the claim's own grant"),
        };
        assert_eq!(harness.proxy.lost_replies(), 1 + u64::from(only_try));
        assert!(guard.is_certain());
        assert!(other.lock(LOCK).try_acquire().await.expect("an answer").is_none());
        guard.release().await.expect("held");
        assert_free_at_once(&other).await;
    }
    assert_eq!(harness.judge(&[client, other], SOON).await.exclusive(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_on_a_lost_claim_leaves_nothing_behind() {
    let harness = MemcachedHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_reply_to(STORE);
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    harness.wait_for_a_lost_reply().await;
    harness.proxy.refuse(true);
    claiming.abort();
    assert!(harness.server.item(LOCK).is_some(), "the server acted");
    pause(200).await;
    harness.proxy.refuse(false);
    harness.recorder.fault_ended(Fault::Partition);
    assert_free_at_once(&other).await;
    assert!(claiming.await.is_err_and(|error| error.is_cancelled()));
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_request_or_reply_is_lost_reports_it_and_the_lock_is_free_long_before_its_ttl() {
    let harness = MemcachedHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    for strike in [
        |harness: &MemcachedHarness| harness.proxy.lose_reply_to(DELETE),
        |harness: &MemcachedHarness| harness.proxy.cut_before_next_request(),
    ] {
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        harness.inject(Fault::Partition, || strike(&harness));
        let error = guard.release().await.expect_err("the release was not confirmed");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
        assert_free_at_once(&other).await;
    }
    assert_eq!(harness.proxy.lost_replies(), 1);
    harness.judge(&[client, other], SOON).await;
}

/// The release is retried when another client already has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retried_release_takes_nothing_from_the_next_holder() {
    let harness = MemcachedHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_reply_to(DELETE);
    let releasing = tokio::spawn(guard.release());
    harness.wait_for_a_lost_reply().await;
    harness.proxy.refuse(true);
    let next = take(&other.lock(LOCK).ttl(LONG)).await;
    harness.proxy.refuse(false);
    harness.recorder.fault_ended(Fault::Partition);
    releasing.await.expect("no panic").expect_err("the release was not confirmed");
    client.client().close().await.expect("the release was retried");
    assert!(next.is_certain() && harness.server.item(LOCK).is_some());
    next.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_whose_request_or_reply_is_lost_is_retried_before_the_lease_ends() {
    let harness = MemcachedHarness::new();
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK).ttl(TTL)).await;
    wait_for_renewal(&guard).await;
    for strike in [
        |harness: &MemcachedHarness| harness.proxy.cut_before_next_request(),
        |harness: &MemcachedHarness| harness.proxy.lose_reply_to(STORE),
    ] {
        harness.inject(Fault::Partition, || strike(&harness));
        wait_for_renewal(&guard).await;
        assert!(guard.is_certain());
    }
    assert_eq!(harness.proxy.lost_replies(), 1);
    guard.release().await.expect("held, with the CAS id of a renewal whose reply was lost");
    assert_eq!(harness.judge(&[client], SOON).await.exclusive(), 1);
}

/// The keeper renews on a connection of its own; the release finds that the CAS id has changed, or is told of
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_released_in_one_round_trip_even_after_a_renewal_on_another_connection() {
    let harness = MemcachedHarness::new();
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK).ttl(Duration::from_secs(3))).await;
    wait_for_renewal(&guard).await;
    wait_for_renewal(&guard).await;
    let before = harness.proxy.requests();
    guard.release().await.expect("held");
    assert_eq!(harness.proxy.requests() - before, 1, "it was not read first");
    assert_eq!(harness.server.item(LOCK), None);
    harness.judge(&[client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_exclude_each_other_while_connections_are_cut_and_replies_are_lost() {
    let harness = MemcachedHarness::new();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(harness.client().await);
    }
    let over = Arc::new(AtomicBool::new(false));
    let work = |client: &RecordedClient| {
        let (lock, over) = (client.lock(LOCK).ttl(TTL), over.clone());
        tokio::spawn(async move {
            let mut holds = 0;
            while !over.load(Ordering::Relaxed) {
                // A reply that is lost in the middle causes an error.
                let Ok(guard) = lock.acquire().await else { continue };
                holds += 1;
                pause(2).await;
                let _ = guard.release().await;
            }
            holds
        })
    };
    let working: Vec<_> = clients.iter().map(work).collect();
    for round in 0..12 {
        pause(150).await;
        harness.inject(Fault::Partition, || match round % 3 {
            0 => harness.proxy.cut(),
            1 => harness.proxy.lose_replies(3),
            _ => harness.proxy.cut_before_next_request(),
        });
    }
    pause(150).await;
    over.store(true, Ordering::Relaxed);
    let mut holds = 0;
    for working in working {
        holds += working.await.expect("no panic");
    }
    let judged = harness.judge(&clients, LONG).await;
    assert!(
        holds > 20 && judged.exclusive() >= holds && judged.excused() == 0,
        "{holds} holds, no hold is excused"
    );
}
