//! A holder that is stopped (`SIGSTOP`, a debugger, a hypervisor) and continues without noticing.

use nix::sys::signal::Signal;
use testkit::scripted_process::{Api, ScriptedProcess};
use testkit::store::{Store, Written};

use super::harness::{LOCK, MachineHarness, hold, pause};

/// Has not ended when the holder has written, on a machine that stalls for half a second.
const TTL: u64 = 1_500;

/// Stops the process, after sending it the first command for when it continues.
async fn stop(subject: &mut ScriptedProcess, then: &str) {
    subject.signal(Signal::SIGSTOP);
    subject.tell(then).await;
}

/// How the next holder gets the lock: the engine stores the two in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Directly after the stopped one, whose expired claim it removes.
    Follows,
    /// After another had it, when nothing is left of the stopped one.
    ComesLater,
}

async fn a_holder_stopped_for(millis: u64, api: Api) {
    let follows = a_stopped_holder_and_the_next(millis, api, Next::Follows);
    let comes_later = a_stopped_holder_and_the_next(millis, api, Next::ComesLater);
    tokio::join!(follows, comes_later);
}

async fn a_stopped_holder_and_the_next(millis: u64, api: Api, next: Next) {
    let harness = MachineHarness::new().await;
    let (mut subject, path) = (harness.subject(api), harness.store());
    let (mut store, path) = (Store::open(&path), path.display().to_string());
    hold(&mut subject, LOCK, &TTL.to_string()).await;
    assert_eq!(subject.ask(&format!("write {LOCK} {path}")).await, "Accepted");

    stop(&mut subject, &format!("certain {LOCK}")).await;
    pause(millis).await;
    if next == Next::ComesLater {
        harness.take_at_once(LOCK).await.release().await.expect("held");
    }
    let next = harness.take_at_once(LOCK).await;
    let token = next.token().expect("sqlite has tokens");
    assert_eq!(store.write(token, "the test"), Written::Accepted);
    subject.signal(Signal::SIGCONT);

    assert_eq!(subject.answer().await, "false", "the first thing it sees");
    assert_eq!(subject.ask(&format!("remaining {LOCK}")).await, "0");
    assert_eq!(subject.ask(&format!("lost {LOCK} 10000")).await, "expired late");
    let refused = format!("{:?}", Written::Refused { seen: token.get() });
    assert_eq!(subject.ask(&format!("write {LOCK} {path}")).await, refused);
    assert_eq!(store.read().value, "the test");
    let error = subject.ask(&format!("release {LOCK}")).await;
    assert!(error.starts_with("Lost: "), "{error}");
    assert_eq!(harness.holders(LOCK).await, [token.engine_token()], "its release was harmless");
    assert!(next.is_certain());
    assert_eq!(subject.ask(&format!("overwrite {path}")).await, "ok");
    assert_eq!(store.read().value, "the subject", "the write that the token prevented");
    next.release().await.expect("the lock was held to the end");
}

#[tokio::test]
async fn a_holder_stopped_for_one_ttl_knows_at_its_first_check_and_does_no_harm() {
    a_holder_stopped_for(TTL, Api::Blocking).await;
}

#[tokio::test]
async fn a_holder_stopped_for_three_ttl_knows_at_its_first_check_and_does_no_harm() {
    a_holder_stopped_for(3 * TTL, Api::Blocking).await;
}

#[tokio::test]
async fn a_holder_stopped_inside_a_runtime_knows_at_its_first_check_and_does_no_harm() {
    a_holder_stopped_for(TTL, Api::Async).await;
}

/// A quarter of the ttl: at least half of the lease is left whenever the pause begins, with time for a
/// machine that stalls.
#[tokio::test]
async fn a_holder_stopped_for_less_than_its_lease_loses_nothing() {
    const TTL: u64 = 4_000;
    let harness = MachineHarness::new().await;
    let mut subject = harness.subject(Api::Blocking);
    hold(&mut subject, LOCK, &TTL.to_string()).await;
    for _ in 0..2 {
        stop(&mut subject, &format!("certain {LOCK}")).await;
        pause(TTL / 4).await;
        subject.signal(Signal::SIGCONT);
        assert_eq!(subject.answer().await, "true");
        pause(TTL / 4).await;
    }
    assert!(harness.is_held(LOCK).await);
    assert_eq!(subject.ask(&format!("release {LOCK}")).await, "ok");
    assert!(!harness.is_held(LOCK).await);
}
