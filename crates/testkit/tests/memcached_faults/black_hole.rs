//! All traffic is lost without an error: the server hangs, or the network drops everything.

use std::time::Duration;

use latchwork::{ErrorKind, Loss};
use testkit::harness::inspect_times_out_and_then_succeeds;
use testkit::history::Fault;
use testkit::workload::contenders::{MARGIN, UNRENEWED};

use super::harness::{LOCK, LONG, MemcachedHarness, SOON, now, pause, take, wait_for_loss, wait_for_renewal};

const PATIENCE: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_before_its_lease_ends_when_the_server_hangs_and_continues_after() {
    let harness = MemcachedHarness::new();
    let (client, other) = (harness.client().await, harness.client().await);
    let guard = take(&client.lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN))).await;
    let held = take(&client.lock("held throughout").ttl(LONG)).await;
    harness.recorder.fault_began(Fault::Trouble);
    harness.server.pause();
    let asked = now();
    let error = other.lock("another").wait(PATIENCE).acquire().await.expect_err("no server answers");
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::TimedOut), "{error}");
    assert!(now().since(asked) < PATIENCE + SOON, "longer than the wait limit");
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let early = guard.lease_end().since(now());
    assert!(!early.is_zero(), "told after its lease had ended");
    harness.server.resume();
    harness.recorder.fault_ended(Fault::Trouble);
    drop(guard);
    take(&other.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    assert!(held.is_certain());
    held.release().await.expect("held");
    harness.judge(&[client, other], LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_black_hole_is_told_before_its_lease_ends_and_another_gets_the_lock_after() {
    let harness = MemcachedHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN))).await;
    wait_for_renewal(&guard).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.black_hole(true);
    let next = tokio::spawn({
        let lock = other.lock(LOCK).ttl(LONG).wait(LONG);
        async move { lock.acquire().await.expect("the lock becomes free by itself") }
    });
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    assert!(!guard.lease_end().since(now()).is_zero(), "told after its lease had ended");
    let next = next.await.expect("no panic");
    assert!(!guard.is_certain());
    drop(guard);
    harness.proxy.black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    pause(200).await;
    assert!(next.is_certain(), "the late release took nothing");
    next.release().await.expect("held");
    assert_eq!(harness.judge(&[client, other], LONG).await.exclusive(), 2, "no hold is excused");
}

/// A connection that the network forgot looks alive: the first request that is not answered in time ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_silently_died_is_retired_after_an_unanswered_request() {
    let harness = MemcachedHarness::new();
    let client = harness.client().await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    harness.inject(Fault::Partition, || harness.proxy.forget_connections());
    let guard = client.lock(LOCK).ttl(LONG).wait(LONG).acquire().await.expect("on a new connection");
    guard.release().await.expect("held");
    harness.judge(&[client], LONG).await;
}

/// A read may be cancelled at any time. If it was cancelled after a second without an answer, the next one
/// does not wait for the same connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inspection_retires_a_connection_that_silently_died() {
    let harness = MemcachedHarness::new();
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Partition, || harness.proxy.forget_connections());
    inspect_times_out_and_then_succeeds(client.client()).await;
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
