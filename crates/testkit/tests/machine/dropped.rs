//! Guards that are dropped in unusual ways: with their thread, while panicking, with their runtime, with
//! their process.

use std::time::Duration;

use latchwork::blocking;
use testkit::Fixture;
use testkit::scripted_process::Api;

use super::harness::{LOCK, LONG, MachineHarness, hold};

#[tokio::test]
async fn a_guard_in_a_thread_local_is_released_when_its_thread_ends() {
    let harness = MachineHarness::new().await;
    let mut subject = harness.subject(Api::Blocking);
    assert_eq!(subject.ask(&format!("thread {LOCK}")).await, "true");
    harness.take_at_once(LOCK).await.release().await.expect("held");
    assert!(subject.end("return").await.success());
}

/// A process that is ended by `command` while it holds a lock leaves the lock free, long before the end of
/// its lease.
async fn process_ended_by(order: &str, api: Api) -> Option<i32> {
    let harness = MachineHarness::new().await;
    let mut subject = harness.subject(api);
    hold(&mut subject, LOCK, LONG).await;
    hold(&mut subject, "leaked", LONG).await;
    assert_eq!(subject.ask("leak leaked").await, "ok");
    let status = subject.end(order).await;
    for lock in [LOCK, "leaked"] {
        harness.take_at_once(lock).await.release().await.expect("held");
    }
    status.code()
}

#[tokio::test]
async fn a_process_that_returns_from_main_leaves_its_locks_free() {
    assert_eq!(process_ended_by("return", Api::Blocking).await, Some(0));
    assert_eq!(process_ended_by("return", Api::Async).await, Some(0));
}

#[tokio::test]
async fn a_process_that_exits_leaves_its_locks_free() {
    assert_eq!(process_ended_by("exit", Api::Blocking).await, Some(0));
    assert_eq!(process_ended_by("exit", Api::Async).await, Some(0));
}

#[tokio::test]
async fn a_process_that_panics_leaves_its_locks_free() {
    const PANICKED: i32 = 101;
    assert_eq!(process_ended_by("panic", Api::Blocking).await, Some(PANICKED));
    assert_eq!(process_ended_by("panic", Api::Async).await, Some(PANICKED));
}

#[tokio::test]
async fn a_guard_dropped_while_panicking_is_released() {
    let harness = MachineHarness::new().await;
    let guard = harness.client.lock(LOCK).acquire().await.expect("free");
    let panicking = tokio::spawn(async move {
        let _held = guard;
        std::panic::resume_unwind(Box::new("on purpose"))
    });
    assert!(panicking.await.is_err());
    let outside = harness.take_at_once(LOCK).await;
    let panicking = std::thread::spawn(move || {
        let _held = outside;
        std::panic::resume_unwind(Box::new("on purpose"))
    });
    assert!(panicking.join().is_err());
    let client = blocking::connect(&harness.url()).expect("the engine accepts the connection");
    let blocking =
        client.lock(LOCK).wait(Duration::from_secs(15)).acquire().expect("the lock is free at once");
    let panicking = std::thread::spawn(move || {
        let _held = blocking;
        std::panic::resume_unwind(Box::new("on purpose"))
    });
    assert!(panicking.join().is_err());
    harness.take_at_once(LOCK).await.release().await.expect("held");
}

/// Ends a runtime whose tasks hold locks, and whose main future's guard is dropped outside any runtime.
fn runtime_ended_by(end: impl FnOnce(tokio::runtime::Runtime)) {
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let harness = other.block_on(MachineHarness::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let client = runtime.block_on(harness.fixture.client());
    let held = runtime.block_on(client.lock(LOCK).acquire()).expect("free");
    let owned = runtime.block_on(client.lock("owned by a task").acquire()).expect("free");
    runtime.spawn(async move {
        let _held = owned;
        std::future::pending::<()>().await
    });
    end(runtime);
    assert!(held.is_certain(), "it is renewed elsewhere");
    drop(held);
    for lock in [LOCK, "owned by a task"] {
        other.block_on(async { harness.take_at_once(lock).await.release().await.expect("held") });
    }
}

#[test]
fn guards_survive_and_are_released_after_a_runtime_that_was_dropped() {
    runtime_ended_by(drop);
}

#[test]
fn guards_survive_and_are_released_after_a_runtime_that_was_shut_down_in_the_background() {
    runtime_ended_by(tokio::runtime::Runtime::shutdown_background);
}
