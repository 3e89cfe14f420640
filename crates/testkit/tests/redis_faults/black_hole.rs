//! All traffic is lost without an error: all sockets stay open.

use std::time::Duration;

use latchwork::{Effect, ErrorKind, Loss};
use testkit::harness::inspect_times_out_and_then_succeeds;
use testkit::history::Fault;
use testkit::store::Written;
use testkit::workload::contenders::{Contenders, MARGIN, TTL, UNRENEWED};

use super::harness::{LOCK, LONG, RedisHarness, SOON, now, pause, take, wait_for_loss, wait_for_renewal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_black_hole_is_told_before_its_lease_ends_and_another_gets_the_lock_after() {
    let harness = RedisHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    let lock = client.lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN));
    let guard = take(&lock).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    wait_for_renewal(&guard).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.black_hole(true);
    let rival = other.lock(LOCK).ttl(LONG).wait(LONG);
    let rival = tokio::spawn(async move { rival.acquire().await });
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let (told, early) = (now(), guard.lease_end().since(now()));
    assert!(!early.is_zero(), "told after its lease had ended");
    assert!(!rival.is_finished(), "another client had it before");
    let next = rival.await.expect("no panic").expect("its turn comes");
    println!("told {early:?} before its lease ended, and {:?} before another had it", now().since(told));
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    drop(guard);
    harness.proxy.black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    // Renewals and a release that were held back arrive now.
    pause(500).await;
    assert!(next.is_certain(), "a late message revoked the lock");
    next.release().await.expect("held");
    assert_eq!(harness.judge(&[client, other], SOON).await.exclusive(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_on_both_sides_of_a_partition_never_hold_at_once_and_all_continue_when_it_heals() {
    let harness = RedisHarness::new();
    let mut clients = harness.clients(3).await;
    for _ in 0..3 {
        clients.push(harness.direct_client().await);
    }
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(5));
    for _ in 0..2 {
        contenders.wait_for_holds(20).await;
        harness.recorder.fault_began(Fault::Partition);
        harness.proxy.black_hole(true);
        pause(2_500).await;
        harness.proxy.black_hole(false);
        harness.recorder.fault_ended(Fault::Partition);
    }
    contenders.wait_for_holds(60).await;
    let tally = contenders.stop().await;
    assert_eq!(tally.refused, 0, "a certain holder was refused: {tally:?}");
    let judged = harness.judge(&clients, SOON + SOON).await;
    assert!(judged.exclusive() >= 100 && judged.excused() == 0, "no hold is excused");
}

/// The claim is in transit when its caller gives up, and the server grants it when no task wants it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_arrives_after_its_caller_gave_up_is_undone() {
    let harness = RedisHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    take(&client.lock(LOCK)).await.release().await.expect("held");
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.black_hole(true);
    let lock = client.lock(LOCK).ttl(LONG).wait(Duration::from_millis(300));
    let error = lock.acquire().await.expect_err("no server answers");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::Unknown), "{error}");
    assert!(error.may_be_held_until().is_some(), "{error}");
    harness.proxy.black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    client.client().close().await.expect("the claim was undone");
    // It waits for a sixth of a lease.
    take(&other.lock(LOCK)).await.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}

/// A renewal without an answer is retried on another connection, with time to spare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_connections_silently_died_keeps_its_lock() {
    let harness = RedisHarness::new();
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK).ttl(TTL)).await;
    wait_for_renewal(&guard).await;
    let lease_end = guard.lease_end();
    harness.inject(Fault::Partition, || harness.proxy.forget_connections());
    wait_for_renewal(&guard).await;
    println!("renewed {:?} before its lease ended", lease_end.since(now()));
    wait_for_renewal(&guard).await;
    assert!(guard.is_certain());
    // The release uses another connection, which is also dead: to detect that would take this test too long.
    harness.proxy.cut();
    pause(50).await;
    guard.release().await.expect("held");
    assert_eq!(harness.judge(&[client], SOON).await.exclusive(), 1);
}

/// A read may be cancelled at any time. If it was cancelled after a second without an answer, the next one
/// does not wait for the same connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inspection_retires_a_connection_that_silently_died() {
    let harness = RedisHarness::new();
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Partition, || harness.proxy.forget_connections());
    inspect_times_out_and_then_succeeds(client.client()).await;
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
