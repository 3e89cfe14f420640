//! User code that blocks every worker thread, and engines that hang: no guard of a lost lock stays certain,
//! and every holder is told before the lease can end.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, ErrorKind, Held, Loss, blocking};
use testkit::Fixture;
use testkit::faulty_engine::FaultyEngine;

use super::harness::{LOCK, MachineHarness};

const TTL: Duration = Duration::from_secs(2);
/// For holders that must be told before the lease ends. A machine that stalls for half a second has time to
/// run the thread that is told, and before that to have a renewal fail.
const ROOMY: Duration = testkit::workload::contenders::UNRENEWED;
const ROOM: Duration = testkit::workload::contenders::MARGIN;

/// The result of a single check, without waiting.
fn lost_by_now(held: &Held) -> Option<Loss> {
    match pin!(held.lost()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(loss) => Some(loss),
        Poll::Pending => None,
    }
}

fn lease_runs(held: &Held) -> bool {
    Clock::boottime().now() < held.lease_end()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_lost_while_every_worker_was_blocked_is_not_certain() {
    let harness = MachineHarness::new().await;
    let guard = harness.client.lock(LOCK).ttl(TTL).acquire().await.expect("free");
    assert!(guard.is_certain() && lost_by_now(&guard).is_none());
    harness.fixture.breaks().await;
    let worker = tokio::spawn(async move {
        // More blocking tasks than worker threads, and this thread: nothing else runs in this runtime
        // meanwhile.
        let blockers: Vec<_> =
            (0..4).map(|_| tokio::spawn(async { std::thread::sleep(TTL * 3 / 2) })).collect();
        std::thread::sleep(TTL * 3 / 2);
        assert!(!guard.is_certain(), "the first thing it sees");
        let loss = lost_by_now(&guard);
        for blocker in blockers {
            blocker.await.expect("no panic");
        }
        loss
    });
    assert_eq!(worker.await.expect("no panic"), Some(Loss::Unreachable));
}

#[tokio::test]
async fn a_loss_is_reported_before_the_lease_ends_though_the_database_hangs() {
    let harness = MachineHarness::new().await;
    let guard = harness.client.lock(LOCK).ttl(ROOMY).stop_margin(ROOM).acquire().await.expect("free");
    let halt = harness.halt();
    let loss = guard.lost().await;
    assert!(lease_runs(&guard), "told in time");
    assert_eq!(loss, Loss::Unreachable);
    drop(halt);
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert!(!harness.is_held(LOCK).await);
}

#[tokio::test]
async fn a_loss_is_reported_before_the_lease_ends_though_the_keepers_thread_hangs() {
    let harness = MachineHarness::new().await;
    let (stuck, faults) = FaultyEngine::new(harness.fixture.engine().await);
    faults.renewal_blocks(ROOMY);
    let client = Client::new(stuck);
    let guard = client.lock(LOCK).ttl(ROOMY).stop_margin(ROOM).acquire().await.expect("free");
    let loss = guard.lost().await;
    assert!(lease_runs(&guard), "told in time");
    assert_eq!(loss, Loss::Expired, "not even the keeper knows");
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
}

/// Nothing but the alarm can wake this runtime: it has no timers, and the renewal is never answered.
#[test]
fn a_loss_is_reported_before_the_lease_ends_in_a_runtime_without_timers() {
    let with_timers = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let harness = with_timers.block_on(MachineHarness::new());
    let engine = with_timers.block_on(harness.fixture.engine());
    let (stuck, faults) = FaultyEngine::new(engine);
    faults.renewal_blocks(ROOMY);
    let client = blocking::Client::new(stuck).expect("a thread is left");
    let guard = client.lock(LOCK).ttl(ROOMY).stop_margin(ROOM).acquire().expect("free");
    let without = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert_eq!(without.block_on(guard.held().lost()), Loss::Expired);
    assert!(lease_runs(&guard), "told in time");
}
