//! The server acts, and its reply is lost.
//!
//! Requests are recognized by their content: a note in a claim, the lock's name in a release, the id of a
//! lease in a keep-alive. After that request the connection is silenced, so that the test can check the
//! server's state, and then it is cut.

use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::history::{Fault, RecordedClient};
use testkit::servers::EtcdServer;

use super::harness::{
    ClusterHarness, EtcdHarness, LOCK, LONG, SOON, connect, lease_of, now, take, wait_for_renewal,
};

/// This text is part of claims and of no other message on the wire.
const NOTE: &str = "the client under test";
/// Renewed often, and much longer than it takes to detect a lost reply.
const TTL: Duration = Duration::from_secs(5);

/// The client whose replies are lost. It has its lease, so that the next request is a claim.
async fn lossy_client(harness: &EtcdHarness<EtcdServer>) -> RecordedClient {
    let client = harness.recorder.client(connect(&harness.url()).await.with_note(NOTE));
    take(&client.lock("before").ttl(LONG)).await.release().await.expect("held");
    client
}

/// Acquires the lock without waiting for a lease to end.
async fn assert_free_at_once(harness: &EtcdHarness<EtcdServer>, client: &RecordedClient) {
    let begun = now();
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    let waited = now().since(begun);
    assert!(waited < Duration::from_secs(2), "the waiter was stuck for {waited:?}");
    assert_eq!(harness.keys(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_is_repeated_and_has_the_token_of_the_first() {
    let harness = EtcdHarness::one();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().silence_after(NOTE.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    let granted = harness.until_keys(1).await;
    assert!(!claiming.is_finished() && harness.proxy().lost_replies() > 0, "the client does not know");
    let holder = harness.state(&other).await.expect("it is held").holders.remove(0);
    harness.proxy().cut();
    let guard = claiming.await.expect("no panic").expect("the claim's own grant");
    harness.recorder.fault_ended(Fault::Partition);
    assert_eq!(Some(guard.token().expect("certain").engine_token()), holder.token);
    assert_eq!(harness.keys(), granted, "nothing beside it");
    guard.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

/// The second request with the same id finds the outcome of the first: the try succeeds instead of failing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_whose_reply_is_lost_learns_its_outcome() {
    let harness = EtcdHarness::one();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().silence_after(NOTE.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let trying = tokio::spawn(async move { lock.try_acquire().await });
    harness.until_keys(1).await;
    harness.proxy().cut();
    let guard = trying.await.expect("no panic").expect("an answer").expect("its own");
    harness.recorder.fault_ended(Fault::Partition);
    guard.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_on_a_lost_claim_leaves_nothing_behind() {
    let harness = EtcdHarness::one();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().silence_after(NOTE.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    harness.until_keys(1).await;
    claiming.abort();
    assert!(claiming.await.is_err_and(|error| error.is_cancelled()));
    harness.proxy().cut();
    harness.recorder.fault_ended(Fault::Partition);
    harness.until_keys(0).await;
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

/// The release of one holder is the turn of the next, and its retry harms no other client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_reply_is_lost_is_retried_without_harm() {
    let harness = EtcdHarness::one();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    let mut queue = harness.enqueue(std::slice::from_ref(&other), LONG).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().silence_after(LOCK.as_bytes());
    let releasing = tokio::spawn(guard.release());
    let next = tokio::time::timeout(SOON, queue.take_first())
        .await
        .expect("the waiter is granted the lock")
        .expect("no panic");
    let next = next.expect("its turn comes");
    assert!(!releasing.is_finished(), "the client does not know");
    harness.proxy().cut();
    let error = releasing.await.expect("no panic").expect_err("the release was not confirmed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    client.client().close().await.expect("the release was retried");
    harness.recorder.fault_ended(Fault::Partition);
    assert!(
        next.is_certain() && harness.keys().len() == 1,
        "the retried release took the lock from the next holder"
    );
    next.release().await.expect("held");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_never_arrived_is_sent_again() {
    let harness = EtcdHarness::one();
    let (client, other) = (lossy_client(&harness).await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Partition, || harness.proxy().cut_before_next_request());
    let error = guard.release().await.expect_err("the release was not confirmed");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert_free_at_once(&harness, &other).await;
    harness.judge(&[client, other], SOON).await;
}

/// No lease is left without a keeper and without a user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_grant_is_lost_is_found_again() {
    let harness = EtcdHarness::one();
    let client = harness.client().await;
    let leases = || harness.etcdctl(&["lease", "list"]).lines().count() - 1;
    harness.recorder.fault_began(Fault::Partition);
    // The lease's ttl, and the beginning of its id.
    harness.proxy().silence_after(&[0x08, 30, 0x10]);
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    harness.wait_for_a_lost_reply().await;
    let end = now().after(SOON);
    while leases() == 0 {
        assert!(now() < end, "none is granted");
    }
    assert!(!claiming.is_finished() && harness.keys().is_empty(), "the client does not know");
    harness.proxy().cut();
    let guard = claiming.await.expect("no panic").expect("free");
    harness.recorder.fault_ended(Fault::Partition);
    assert_eq!(leases(), 1, "the same lease");
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keep_alive_whose_reply_is_lost_is_repeated_before_the_lease_ends() {
    let harness = EtcdHarness::one();
    let client = lossy_client(&harness).await;
    let guard = take(&client.lock(LOCK).ttl(TTL)).await;
    wait_for_renewal(&guard).await;
    let lease = lease_of(&harness.keys()[0]);
    let needle = [&[0x08][..], &varint(u64::from_str_radix(&lease, 16).expect("an id"))].concat();
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().silence_after(&needle);
    harness.wait_for_a_lost_reply().await;
    harness.proxy().cut();
    wait_for_renewal(&guard).await;
    harness.recorder.fault_ended(Fault::Partition);
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    assert!(harness.judge(&[client], SOON).await.exclusive() > 0);
}

/// The varint encoding of protocol buffers.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
