//! redis-py's `Lock` and ours on one key, in both directions of every race.

use std::time::Duration;

use latchwork::ErrorKind;
use nix::sys::signal::Signal;
use testkit::scripted_process::{Api, ScriptedProcess};

use super::harness::{HazardHarness, LOCK, LONG, soon, take, take_in_background, until, with_both};
use super::redis_py;

/// Short enough to wait for its end. A renewed lock is kept on a machine that stalls for half a second.
const SHORT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn redis_py_does_not_get_the_lock_while_our_client_holds_it() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let (mut theirs, client) = (redis_py::start(&harness, LONG), harness.client(options).await);
        let guard = take(&client, LONG).await;
        assert_eq!(theirs.ask("acquire").await, "busy");
        assert_eq!(theirs.ask("wait 0.3").await, "busy");
        assert_eq!(theirs.ask("release").await, "LockError", "redis-py knows that it holds nothing");
        theirs.tell("wait 10").await;
        assert!(guard.is_certain());
        guard.release().await.expect("held");
        assert_eq!(theirs.answer().await, "held", "redis-py gets it when our client releases it");
        assert!(client.lock(LOCK).try_acquire().await.expect("it answers").is_none());
        assert_eq!(theirs.ask("release").await, "ok");
    })
    .await;
}

#[tokio::test]
async fn our_client_does_not_get_the_lock_while_redis_py_holds_it() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let (mut theirs, client) = (redis_py::start(&harness, LONG), harness.client(options).await);
        assert_eq!(theirs.ask("acquire").await, "held");
        assert!(client.lock(LOCK).try_acquire().await.expect("it answers").is_none());
        let error = client.lock(LOCK).wait(SHORT).acquire().await.expect_err("theirs");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!([theirs.ask("owned").await, theirs.ask("extend 5").await], ["True", "ok"], "unharmed");
        let waiting = take_in_background(&client, LONG);
        harness.until_queued(1).await;
        assert_eq!(theirs.ask("release").await, "ok");
        let guard = soon(waiting).await;
        assert_eq!(theirs.ask("acquire").await, "busy", "our client gets it when redis-py releases it");
        guard.release().await.expect("held");
    })
    .await;
}

#[tokio::test]
async fn our_client_gets_an_expired_lock_of_redis_py_whose_late_requests_do_no_harm() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let (mut theirs, client) = (redis_py::start(&harness, SHORT), harness.client(options).await);
        assert_eq!(theirs.ask("acquire").await, "held");
        let guard = take(&client, LONG).await;
        let (value, left) = (harness.value(LOCK), harness.pttl(LOCK));
        for order in ["extend 60", "reacquire", "release"] {
            assert_eq!(theirs.ask(order).await, "LockNotOwnedError", "{order}");
        }
        assert!(value.is_some() && harness.value(LOCK) == value && harness.pttl(LOCK) <= left);
        guard.release().await.expect("the lock was held to the end");
    })
    .await;
}

#[tokio::test]
async fn redis_py_gets_our_expired_lock_and_our_late_release_does_no_harm() {
    let harness = HazardHarness::new();
    let mut theirs = redis_py::start(&harness, LONG);
    let mut ours = ScriptedProcess::start(&harness.url(""), Api::Blocking);
    let millis = SHORT.as_millis();
    assert!(ours.ask(&format!("hold {LOCK} {millis}")).await.starts_with("held"));
    assert_eq!(theirs.ask("acquire").await, "busy");
    ours.signal(Signal::SIGSTOP);
    ours.tell(&format!("certain {LOCK}")).await;
    assert_eq!(theirs.ask("wait 10").await, "held", "no client renews for the stopped one");
    let value = harness.value(LOCK);
    ours.signal(Signal::SIGCONT);
    assert_eq!(ours.answer().await, "false", "the first thing that it sees");
    let error = ours.ask(&format!("release {LOCK}")).await;
    assert!(error.starts_with("Lost: "), "{error}");
    assert_eq!(ours.ask(&format!("hold {LOCK} {millis}")).await, "busy");
    assert!(value.is_some() && harness.value(LOCK) == value);
    assert_eq!([theirs.ask("extend 5").await, theirs.ask("release").await], ["ok", "ok"]);
}

/// Other clients can neither extend nor release the lock, in any order of attempts.
#[tokio::test]
async fn a_lock_taken_over_from_redis_py_stays_ours_over_many_of_its_attempts() {
    let harness = HazardHarness::new();
    let (mut theirs, client) = (redis_py::start(&harness, SHORT), harness.client("").await);
    assert_eq!(theirs.ask("acquire").await, "held");
    until("their lease ends", || harness.value(LOCK).is_none()).await;
    let guard = take(&client, SHORT).await;
    let value = harness.value(LOCK);
    // Longer than our own lease: our holder renews while they try.
    for _ in 0..4 {
        assert_eq!(theirs.ask("reacquire").await, "LockNotOwnedError");
        assert_eq!(theirs.ask("extend 0.1").await, "LockNotOwnedError");
        assert_eq!(theirs.ask("owned").await, "False");
        super::harness::pause(SHORT.as_millis() as u64 / 2).await;
    }
    assert!(guard.is_certain() && harness.value(LOCK) == value);
    guard.release().await.expect("the lock was held to the end");
}
