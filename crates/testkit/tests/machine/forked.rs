//! A forked child has the memory and the descriptors of its parent, and none of its locks.

use testkit::scripted_process::{Api, ScriptedProcess};

use super::harness::{LOCK, LONG, MachineHarness, hold, pause};

const TTL: u64 = 2_400;
/// For holders that must be told before the lease ends: a tenth of it is enough time on a busy machine.
const ROOMY: &str = "2500";

/// The state of the inherited lock and client in the fork of a holder.
async fn fork_holds_nothing(fork: &mut ScriptedProcess) {
    assert_eq!(fork.answer().await, "fork");
    assert_eq!(fork.ask(&format!("certain {LOCK}")).await, "false");
    assert_eq!(fork.ask(&format!("remaining {LOCK}")).await, "0");
    assert!(fork.ask(&format!("lost {LOCK} 10000")).await.starts_with("copied"));
    for order in [&format!("hold another {LONG}"), "inspect", "close"] {
        let error = fork.ask(order).await;
        assert!(error.starts_with("Invalid: ") && error.contains("connect again"), "{order}: {error}");
    }
}

/// Releases or drops everything inherited.
async fn release_everything(fork: &mut ScriptedProcess, order: &str) {
    let answer = fork.ask(&format!("{order} {LOCK}")).await;
    match order {
        "release" => assert!(answer.starts_with("Lost: ") && answer.contains("copy"), "{answer}"),
        _ => assert_eq!(answer, "ok"),
    }
    assert_eq!(fork.ask("disconnect").await, "ok");
}

/// The parent continues for longer than a lease, whatever the fork did.
async fn parent_continues(harness: &MachineHarness, parent: &mut ScriptedProcess, sessions: usize) {
    assert_eq!(harness.sessions(), sessions, "the parent's session lives");
    for _ in 0..3 {
        pause(TTL / 2).await;
        assert_eq!(parent.ask(&format!("certain {LOCK}")).await, "true");
        assert!(harness.is_held(LOCK).await);
    }
    assert_eq!(parent.ask(&format!("release {LOCK}")).await, "ok");
    harness.take_at_once(LOCK).await.release().await.expect("held");
}

async fn a_fork_that(lets_go_by: &str, ends_by: &str, api: Api) {
    let harness = MachineHarness::new().await;
    let mut parent = harness.subject(api);
    hold(&mut parent, LOCK, &TTL.to_string()).await;
    let sessions = harness.sessions();
    let mut fork = parent.fork().await;
    fork_holds_nothing(&mut fork).await;
    release_everything(&mut fork, lets_go_by).await;
    fork.end_fork(ends_by).await;
    let ended = parent.ask("reap").await;
    assert!(ended.starts_with("Exited(") && ended.ends_with(", 0)"), "{ended}");
    parent_continues(&harness, &mut parent, sessions).await;
}

#[tokio::test]
async fn a_fork_that_releases_everything_takes_nothing_from_its_parent() {
    let released = a_fork_that("release", "return", Api::Blocking);
    let dropped = a_fork_that("drop", "exit", Api::Blocking);
    tokio::join!(released, dropped);
}

#[tokio::test]
async fn a_fork_inside_a_runtime_that_releases_everything_takes_nothing_from_its_parent() {
    let released = a_fork_that("release", "exit", Api::Async);
    let dropped = a_fork_that("drop", "return", Api::Async);
    tokio::join!(released, dropped);
}

/// The fork ends, and the language drops everything inherited, in whatever order.
#[tokio::test]
async fn a_fork_that_just_ends_takes_nothing_from_its_parent() {
    let harness = MachineHarness::new().await;
    let mut parent = harness.subject(Api::Blocking);
    hold(&mut parent, LOCK, &TTL.to_string()).await;
    let sessions = harness.sessions();
    for ends_by in ["return", "exit"] {
        let mut fork = parent.fork().await;
        assert_eq!(fork.answer().await, "fork");
        fork.end_fork(ends_by).await;
        assert!(parent.ask("reap").await.ends_with(", 0)"));
    }
    parent_continues(&harness, &mut parent, sessions).await;
}

/// Without a guard, which would keep the client alive: this client is really dropped.
#[tokio::test]
async fn a_fork_that_drops_its_client_does_not_end_its_parents_session() {
    for api in [Api::Blocking, Api::Async] {
        let harness = MachineHarness::new().await;
        let mut parent = harness.subject(api);
        assert_eq!(parent.ask("inspect").await, "0");
        let sessions = harness.sessions();
        let mut fork = parent.fork().await;
        assert_eq!(fork.answer().await, "fork");
        assert_eq!(fork.ask("disconnect").await, "ok");
        assert_eq!(harness.sessions(), sessions);
        fork.end_fork("return").await;
        assert!(parent.ask("reap").await.ends_with(", 0)"));
        assert_eq!(harness.sessions(), sessions);
        hold(&mut parent, LOCK, LONG).await;
        assert!(harness.is_held(LOCK).await);
    }
}

#[tokio::test]
async fn a_fork_that_connects_again_is_another_client() {
    for api in [Api::Blocking, Api::Async] {
        let harness = MachineHarness::new().await;
        let mut parent = harness.subject(api);
        hold(&mut parent, LOCK, LONG).await;
        let mut fork = parent.fork().await;
        assert_eq!(fork.answer().await, "fork");
        assert_eq!(fork.ask("connect").await, "ok");
        assert_eq!(fork.ask("inspect").await, "1", "it sees its parent's locks");
        assert_eq!(fork.ask(&format!("hold own {LONG}")).await.split(' ').next(), Some("held"));
        assert_eq!(fork.ask("certain own").await, "true");
        assert!(harness.is_held("own").await);
        assert_eq!(fork.ask("release own").await, "ok");
        assert!(!harness.is_held("own").await);
        fork.end_fork("return").await;
        assert!(parent.ask("reap").await.ends_with(", 0)"));
        assert_eq!(parent.ask(&format!("release {LOCK}")).await, "ok");
    }
}

/// The fork inherits the alarm's state but not its thread, and nothing but an alarm can tell when the engine
/// hangs.
#[tokio::test]
async fn a_fork_is_told_of_the_loss_of_its_own_locks() {
    let harness = MachineHarness::new().await;
    let mut parent = harness.subject(Api::Blocking);
    hold(&mut parent, LOCK, LONG).await;
    assert_eq!(parent.ask(&format!("lost {LOCK} 1")).await, "no", "its alarm runs before the fork");
    let mut fork = parent.fork().await;
    assert_eq!(fork.answer().await, "fork");
    assert_eq!(fork.ask("connect").await, "ok");
    hold(&mut fork, "own", ROOMY).await;
    let halt = harness.halt();
    assert_eq!(fork.ask("lost own 10000").await, "unreachable in time");
    drop(halt);
    fork.end_fork("exit").await;
}

/// A listener in the fork must not change the time at which its parent is told.
#[tokio::test]
async fn a_fork_does_not_silence_its_parents_alarm() {
    let harness = MachineHarness::new().await;
    let mut parent = harness.subject(Api::Blocking);
    hold(&mut parent, LOCK, ROOMY).await;
    assert_eq!(parent.ask(&format!("lost {LOCK} 1")).await, "no", "its alarm runs before the fork");
    let mut fork = parent.fork().await;
    assert_eq!(fork.answer().await, "fork");
    assert_eq!(fork.ask("connect").await, "ok");
    hold(&mut fork, "own", LONG).await;
    let halt = harness.halt();
    assert_eq!(fork.ask("lost own 1").await, "no", "it can wait on its own");
    let setting = async {
        loop {
            assert_eq!(fork.ask("lost own 1").await, "no");
            pause(20).await;
        }
    };
    let order = format!("lost {LOCK} 10000");
    tokio::select! {
        told = parent.ask(&order) => assert_eq!(told, "unreachable in time"),
        () = setting => {}
    }
    drop(halt);
}

#[tokio::test]
async fn a_killed_holders_fork_does_not_keep_the_lock_alive() {
    let harness = MachineHarness::new().await;
    let mut parent = harness.subject(Api::Blocking);
    hold(&mut parent, LOCK, &TTL.to_string()).await;
    let mut fork = parent.fork().await;
    assert_eq!(fork.answer().await, "fork");
    parent.kill().await;
    // The fork keeps the parent's session open, so only the end of the lease can tell.
    let next = harness.take_at_once(LOCK).await;
    assert_eq!(fork.ask(&format!("certain {LOCK}")).await, "false", "it is alive, and holds nothing");
    pause(TTL).await;
    assert!(next.is_certain());
    next.release().await.expect("held");
    fork.end_fork("exit").await;
}
