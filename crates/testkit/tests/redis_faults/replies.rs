//! The connection breaks in the middle of a request: before the server got it, or after it acted.

use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::history::{Fault, RecordedClient};
use testkit::workload::contenders::Contenders;

use super::harness::{LOCK, LONG, RedisHarness, SOON, connect, now, pause, take, wait_for_renewal};

/// This text is part of claims and releases and of no other message on the wire.
const NOTE: &str = "the client under test";
/// Renewed often, and much longer than it takes to detect a lost reply.
const TTL: Duration = Duration::from_secs(3);

/// The client whose replies are lost. Other clients bypass the proxy.
async fn lossy_client(harness: &RedisHarness) -> RecordedClient {
    let client = connect(&harness.url("")).await;
    harness.recorder.client(client.with_note(NOTE))
}

/// Acquires the lock without waiting for a lease to end: that would take a sixth of a lease.
async fn assert_free_at_once(harness: &RedisHarness, client: &RecordedClient) {
    let begun = now();
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    println!("free after {:?}", now().since(begun));
    assert!(harness.free_in() < 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_is_repeated_and_has_the_token_of_the_first() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_reply_to(NOTE.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    harness.wait_for_a_lost_reply().await;
    // Blocks the retry until the first grant was checked.
    harness.proxy.refuse(true);
    let granted = harness.newest_token();
    assert!(harness.free_in() > 0, "the server acted");
    pause(100).await;
    harness.proxy.refuse(false);
    harness.recorder.fault_ended(Fault::Partition);
    let guard = claiming.await.expect("no panic").expect("the claim's own grant");
    assert_eq!(guard.token().unwrap().engine_token(), granted);
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    assert_eq!(harness.judge(&[client, other], SOON).await.exclusive(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_never_arrived_is_sent_again() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    // Once before, so that the next request is the claim and not a handshake.
    take(&client.lock(LOCK)).await.release().await.expect("held");
    harness.inject(Fault::Partition, || harness.proxy.cut_before_next_request());
    take(&client.lock(LOCK)).await.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    assert_eq!(harness.judge(&[client, other], SOON).await.exclusive(), 3);
}

/// The second request with the same id finds the outcome of the first: the try succeeds instead of failing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_whose_reply_is_lost_learns_its_outcome() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    harness.inject(Fault::Partition, || harness.proxy.lose_reply_to(NOTE.as_bytes()));
    let guard = client.lock(LOCK).ttl(LONG).try_acquire().await.expect("an answer").expect("its own");
    assert_eq!(harness.proxy.lost_replies(), 1);
    guard.release().await.expect("held");
    let held = take(&other.lock(LOCK)).await;
    harness.inject(Fault::Partition, || harness.proxy.lose_reply_to(NOTE.as_bytes()));
    assert!(
        client.lock(LOCK).try_acquire().await.expect("an answer").is_none(),
        "another client has the lock"
    );
    assert_eq!(harness.proxy.lost_replies(), 2);
    held.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_on_a_lost_claim_leaves_nothing_behind() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_reply_to(NOTE.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    harness.wait_for_a_lost_reply().await;
    harness.proxy.refuse(true);
    claiming.abort();
    assert!(harness.free_in() > 0, "the server acted");
    pause(200).await;
    harness.proxy.refuse(false);
    harness.recorder.fault_ended(Fault::Partition);
    let begun = now();
    take(&other.lock(LOCK)).await.release().await.expect("held");
    let waited = now().since(begun);
    println!("free {waited:?} after the network healed");
    assert!(claiming.await.is_err_and(|error| error.is_cancelled()));
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_reply_is_lost_reports_it_and_the_lock_is_free() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Partition, || harness.proxy.lose_reply_to(NOTE.as_bytes()));
    let error = guard.release().await.expect_err("the release was not confirmed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    assert_eq!(harness.proxy.lost_replies(), 1);
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_never_arrived_is_sent_again_and_the_lock_is_free_long_before_its_ttl() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Partition, || harness.proxy.cut_before_next_request());
    let error = guard.release().await.expect_err("the release was not confirmed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

/// The release of one holder is the turn of the next: only the server knows the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_release_still_hands_the_lock_over_and_its_retry_does_no_harm() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    let lock = other.lock(LOCK).ttl(TTL);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&other, 1).await;
    harness.inject(Fault::Partition, || harness.proxy.lose_reply_to(NOTE.as_bytes()));
    guard.release().await.expect_err("the release was not confirmed");
    let next = waiting.await.expect("no panic");
    client.client().close().await.expect("the release was retried");
    pause(300).await;
    assert!(next.is_certain(), "the retried release took the lock from the next holder");
    next.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}

/// The message that hands the lock over is the only notification: a client that misses it has the lock and
/// does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_missed_the_message_finds_its_own_grant() {
    let harness = RedisHarness::new();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    let guard = take(&other.lock(LOCK).ttl(LONG)).await;
    let lock = client.lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&other, 1).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_next_reply();
    guard.release().await.expect("held");
    harness.wait_for_a_lost_reply().await;
    let (lost, handed_over) = (now(), harness.newest_token());
    let guard = waiting.await.expect("no panic");
    harness.recorder.fault_ended(Fault::Partition);
    println!("found out after {:?}", now().since(lost));
    // If it had not found out, it would have got the lock after the lease of that grant, with a greater
    // token.
    assert_eq!(guard.token().unwrap().engine_token(), handed_over);
    guard.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_whose_request_or_reply_is_lost_is_retried_before_the_lease_ends() {
    let harness = RedisHarness::new();
    let client = lossy_client(&harness).await;
    let guard = take(&client.lock(LOCK).ttl(TTL)).await;
    // The first renewal opens a connection of its own; from then on every request is a renewal.
    wait_for_renewal(&guard).await;
    for strike in [
        |harness: &RedisHarness| harness.proxy.cut_before_next_request(),
        |harness: &RedisHarness| harness.proxy.lose_next_reply(),
    ] {
        let requests = harness.proxy.requests();
        harness.inject(Fault::Partition, || strike(&harness));
        wait_for_renewal(&guard).await;
        assert!(
            harness.proxy.requests() >= requests + 3,
            "one reply was lost, and a new connection did its handshake"
        );
        assert!(guard.is_certain());
    }
    assert_eq!(harness.proxy.lost_replies(), 1);
    guard.release().await.expect("held");
    assert_eq!(harness.judge(&[client], SOON).await.exclusive(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_lose_no_lock_while_connections_are_cut_and_replies_are_lost() {
    let harness = RedisHarness::new();
    let clients = harness.clients(6).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(2));
    cut_again_and_again(&harness, &clients, contenders, 12, 15).await;
}

/// Cuts connections and drops replies this many times, with as many turns in between: no client loses a lock
/// by it.
pub(super) async fn cut_again_and_again(
    harness: &RedisHarness,
    clients: &[RecordedClient],
    contenders: Contenders,
    times: usize,
    turns: usize,
) {
    for round in 0..times {
        contenders.wait_for_holds(turns).await;
        harness.inject(Fault::Partition, || match round % 3 {
            0 => harness.proxy.cut(),
            1 => harness.proxy.lose_replies(3),
            _ => harness.proxy.cut_before_next_request(),
        });
    }
    contenders.wait_for_holds(turns).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = harness.judge(clients, SOON).await;
    assert!(judged.exclusive() >= (times + 1) * turns && judged.excused() == 0, "no hold is excused");
}
