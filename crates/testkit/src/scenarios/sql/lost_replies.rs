//! The connection breaks after the server acted.

use std::time::Duration;

use crate::history::{Fault, RecordedClient};
use latchwork::{Effect, ErrorKind};

use super::SqlHarness;
use crate::harness::{LOCK, LONG, SOON, connect, now, take, wait_for_renewal};

/// This text is part of claims and of no other message on the wire.
const NOTE: &str = "the client under test";
const TTL: Duration = Duration::from_secs(3);

/// The client whose replies are lost. Other clients bypass the proxy.
async fn lossy_client(harness: &impl SqlHarness) -> RecordedClient {
    let client = connect(&harness.url()).await;
    harness.recorder.client(client.with_note(NOTE))
}

/// Acquires the lock without waiting for a lease to end: that would take a sixth of a lease.
async fn assert_free_at_once(client: &RecordedClient) {
    let begun = now();
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    println!("free after {:?}", now().since(begun));
}

/// The claim is repeated with the same id, and gets the same answer.
pub async fn a_claim_whose_reply_is_lost_after_the_commit_finds_its_own_grant(harness: &impl SqlHarness) {
    let (client, other) = (lossy_client(harness).await, harness.observer().await);
    harness.inject(Fault::Partition, || harness.proxy().lose_reply_to(NOTE.as_bytes()));
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    assert_eq!(harness.proxy().lost_replies(), 1);
    let granted = harness.sql("SELECT token FROM latchwork_lock");
    assert_eq!(guard.token().unwrap().engine_token().to_string(), granted, "the token of the first grant");
    guard.release().await.expect("held");
    assert_free_at_once(&other).await;
    assert_eq!(harness.judge(&[client, other], SOON).await.exclusive(), 2);
}

/// The reply is lost after the commit, or the request never arrives: the caller gets an error, and the
/// janitor repeats the release.
pub async fn a_release_without_an_answer_reports_it_and_the_lock_is_free(harness: &impl SqlHarness) {
    let (client, other) = (lossy_client(harness).await, harness.observer().await);
    // The first use is a transaction whose replies are not awaited.
    assert_free_at_once(&other).await;
    for is_sent in [true, false] {
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        harness.inject(Fault::Partition, || match is_sent {
            true => harness.proxy().lose_next_reply(),
            false => harness.proxy().cut_before_next_request(),
        });
        let error = guard.release().await.expect_err("the release was not confirmed");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
        assert_free_at_once(&other).await;
    }
    harness.judge(&[client, other], SOON).await;
}

/// For a waiter whose entry is written, and for a holder that hands the lock over.
pub async fn a_lost_reply_in_a_contended_transaction_costs_no_client_a_turn(harness: &impl SqlHarness) {
    let (client, other) = (lossy_client(harness).await, harness.observer().await);
    let held = take(&other.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Partition, || harness.proxy().lose_reply_to(NOTE.as_bytes()));
    let lock = client.lock(LOCK).ttl(TTL);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&other, 1).await;
    held.release().await.expect("held");
    let guard = waiting.await.expect("no panic");
    wait_for_renewal(&guard).await;
    let lock = other.lock(LOCK).ttl(LONG);
    let next = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&other, 1).await;
    harness.inject(Fault::Partition, || harness.proxy().lose_next_reply());
    guard.release().await.expect_err("the release was not confirmed");
    client.client().close().await.expect("the release was retried");
    next.await.expect("no panic").release().await.expect("held");
    assert_free_at_once(&other).await;
    harness.judge(&[client, other], SOON).await;
}
