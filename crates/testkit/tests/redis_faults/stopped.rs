//! The server stalls (`SIGSTOP`: a stalled disk, a fork, a hypervisor) and continues.

use std::time::Duration;

use latchwork::engine::Filter;
use latchwork::{Effect, ErrorKind, Loss};
use testkit::history::Fault;
use testkit::store::Written;
use testkit::workload::contenders::{Contenders, MARGIN, TTL, UNRENEWED};

use super::harness::{LOCK, LONG, RedisHarness, SOON, now, pause, take, wait_for_loss};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stall_shorter_than_a_lease_costs_no_client_a_lock() {
    let harness = RedisHarness::new();
    let clients = harness.clients(5).await;
    let guard = take(&clients[0].lock("held throughout").ttl(TTL)).await;
    let contenders = Contenders::start(&harness, &clients[1..], Duration::from_millis(3));
    for _ in 0..2 {
        contenders.wait_for_holds(30).await;
        harness.recorder.fault_began(Fault::Trouble);
        harness.server.pause();
        pause(500).await;
        harness.server.resume();
        harness.recorder.fault_ended(Fault::Trouble);
    }
    contenders.wait_for_holds(30).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.errors.is_empty(), "{tally:?}");
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    assert!(harness.judge(&clients, SOON).await.exclusive() > 90, "no hold is excused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_told_before_their_leases_end_during_a_longer_server_stall() {
    let harness = RedisHarness::new();
    let clients = harness.clients(3).await;
    let lock = clients[0].lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN));
    let guard = take(&lock).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    let waiter = clients[1].lock(LOCK).ttl(LONG).wait(LONG);
    let waiter = tokio::spawn(async move { waiter.acquire().await });
    harness.wait_for_waiters(&clients[0], 1).await;

    harness.recorder.fault_began(Fault::Trouble);
    harness.server.pause();
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let early = guard.lease_end().since(now());
    assert!(!early.is_zero(), "told after its lease had ended");
    println!("told {early:?} before its lease ended");
    pause(TTL.as_millis() as u64).await;
    harness.server.resume();
    let resumed = now();
    harness.recorder.fault_ended(Fault::Trouble);

    let next = waiter.await.expect("no panic").expect("the wait outlived the outage");
    let waited = now().since(resumed);
    println!("the waiter had it {waited:?} after the server went on");
    assert!(waited < SOON, "{waited:?}");
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    drop(guard);
    next.release().await.expect("held");
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 2);
}

/// Every request has a limit of ten seconds, for every caller and on every runtime. Then it fails as one that
/// may still take effect, unless it only reads.
#[tokio::test]
async fn a_request_that_a_stalled_server_never_answers_times_out() {
    let harness = RedisHarness::new();
    let clients = harness.clients(1).await;
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    harness.recorder.fault_began(Fault::Trouble);
    harness.server.pause();
    let (begun, client) = (now(), clients[0].client());
    let trying = client.lock("another").ttl(LONG);
    let everything = Filter::Prefix(String::new());
    let ended = async { tokio::join!(guard.release(), trying.try_acquire(), client.inspect(&everything)) };
    let (released, tried, seen) = tokio::time::timeout(LONG, ended).await.expect("the wait ends");
    println!("told after {:?}", now().since(begun));
    harness.server.resume();
    harness.recorder.fault_ended(Fault::Trouble);
    let (released, tried) = (released.unwrap_err(), tried.map(drop).unwrap_err());
    assert!(released.to_string().contains("did not answer within 10s"), "{released}");
    let answers = [(released, Effect::Unknown), (tried, Effect::Unknown), (seen.unwrap_err(), Effect::None)];
    for (error, effect) in answers {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, effect), "{error}");
    }
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_never_hold_at_once_after_a_server_stall_longer_than_their_leases() {
    let harness = RedisHarness::new();
    let clients = harness.clients(5).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(100));
    for _ in 0..2 {
        contenders.wait_for_holds(3).await;
        harness.recorder.fault_began(Fault::Trouble);
        harness.server.pause();
        pause(TTL.as_millis() as u64 + 300).await;
        harness.server.resume();
        harness.recorder.fault_ended(Fault::Trouble);
    }
    contenders.wait_for_holds(6).await;
    let tally = contenders.stop().await;
    assert_eq!(tally.refused, 0, "a certain holder was refused: {tally:?}");
    let only_lost = |error: &latchwork::Error| error.kind() == ErrorKind::Lost;
    assert!(tally.errors.iter().all(only_lost), "{tally:?}");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() > 12 && judged.excused() == 0, "no hold is excused");
}

/// No client holds the lock: the claim lies unread in the server's socket until long after its lease would
/// have ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_long_wait_limit_claims_again_after_a_late_answer() {
    let harness = RedisHarness::new();
    let client = harness.client().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    harness.recorder.fault_began(Fault::Trouble);
    harness.server.pause();
    let lock = client.lock(LOCK).ttl(Duration::from_millis(500)).wait(LONG);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    pause(1_500).await;
    harness.server.resume();
    harness.recorder.fault_ended(Fault::Trouble);
    let guard = waiter.await.expect("no panic").expect("the wait limit was long enough");
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
