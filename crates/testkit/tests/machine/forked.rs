//! A forked child has the memory and the descriptors of its parent, and none of its locks.

use testkit::subject::{Api, Subject};

use super::scene::{LOCK, LONG, Scene, hold, pause};

const TTL: u64 = 600;

/// What the fork of a holder sees of the inherited lock and client.
async fn believes_nothing(fork: &mut Subject) {
    assert_eq!(fork.answer().await, "fork");
    assert_eq!(fork.ask(&format!("certain {LOCK}")).await, "false");
    assert_eq!(fork.ask(&format!("remaining {LOCK}")).await, "0");
    assert!(fork.ask(&format!("lost {LOCK} 10000")).await.starts_with("copied"));
    for order in [&format!("hold another {LONG}"), "inspect", "close"] {
        let error = fork.ask(order).await;
        assert!(error.starts_with("Invalid: ") && error.contains("connect again"), "{order}: {error}");
    }
}

/// Lets go of everything inherited, by `release` or `drop`.
async fn lets_go(fork: &mut Subject, order: &str) {
    let answer = fork.ask(&format!("{order} {LOCK}")).await;
    match order {
        "release" => assert!(answer.starts_with("Lost: ") && answer.contains("copy"), "{answer}"),
        _ => assert_eq!(answer, "ok"),
    }
    assert_eq!(fork.ask("disconnect").await, "ok");
}

/// The parent goes on for three leases, whatever the fork did.
async fn goes_on(scene: &Scene, parent: &mut Subject, sessions: usize) {
    assert_eq!(scene.sessions(), sessions, "the parent's session lives");
    for _ in 0..6 {
        pause(TTL / 2).await;
        assert_eq!(parent.ask(&format!("certain {LOCK}")).await, "true");
        assert!(scene.is_held(LOCK).await);
    }
    assert_eq!(parent.ask(&format!("release {LOCK}")).await, "ok");
    scene.take_at_once(LOCK).await.release().await.expect("held");
}

async fn a_fork_that(lets_go_by: &str, ends_by: &str, api: Api) {
    let scene = Scene::new().await;
    let mut parent = scene.subject(api);
    hold(&mut parent, LOCK, &TTL.to_string()).await;
    let sessions = scene.sessions();
    let mut fork = parent.fork().await;
    believes_nothing(&mut fork).await;
    lets_go(&mut fork, lets_go_by).await;
    fork.end_fork(ends_by).await;
    let ended = parent.ask("reap").await;
    assert!(ended.starts_with("Exited(") && ended.ends_with(", 0)"), "{ended}");
    goes_on(&scene, &mut parent, sessions).await;
}

#[tokio::test]
async fn a_fork_that_releases_and_returns_from_main_takes_nothing_from_its_parent() {
    a_fork_that("release", "return", Api::Blocking).await;
}

#[tokio::test]
async fn a_fork_that_drops_and_exits_takes_nothing_from_its_parent() {
    a_fork_that("drop", "exit", Api::Blocking).await;
}

#[tokio::test]
async fn a_fork_inside_a_runtime_that_releases_and_exits_takes_nothing_from_its_parent() {
    a_fork_that("release", "exit", Api::Async).await;
}

#[tokio::test]
async fn a_fork_inside_a_runtime_that_drops_and_returns_from_main_takes_nothing_from_its_parent() {
    a_fork_that("drop", "return", Api::Async).await;
}

/// The same with all it inherited dropped by the language, in whatever order.
#[tokio::test]
async fn a_fork_that_just_ends_takes_nothing_from_its_parent() {
    let scene = Scene::new().await;
    let mut parent = scene.subject(Api::Blocking);
    hold(&mut parent, LOCK, &TTL.to_string()).await;
    let sessions = scene.sessions();
    for ends_by in ["return", "exit"] {
        let mut fork = parent.fork().await;
        assert_eq!(fork.answer().await, "fork");
        fork.end_fork(ends_by).await;
        assert!(parent.ask("reap").await.ends_with(", 0)"));
    }
    goes_on(&scene, &mut parent, sessions).await;
}

#[tokio::test]
async fn a_fork_that_connects_again_is_another_client() {
    for api in [Api::Blocking, Api::Async] {
        let scene = Scene::new().await;
        let mut parent = scene.subject(api);
        hold(&mut parent, LOCK, LONG).await;
        // Its alarm runs before the fork, which inherits the alarm's descriptor and not its thread.
        assert_eq!(parent.ask(&format!("lost {LOCK} 1")).await, "no");
        let mut fork = parent.fork().await;
        assert_eq!(fork.answer().await, "fork");
        assert_eq!(fork.ask("connect").await, "ok");
        assert_eq!(fork.ask("inspect").await, "1", "it sees what its parent holds");
        assert_eq!(fork.ask(&format!("hold own {LONG}")).await.split(' ').next(), Some("held"));
        assert_eq!(fork.ask("certain own").await, "true");
        assert!(scene.is_held("own").await);
        assert_eq!(fork.ask("release own").await, "ok");
        assert!(!scene.is_held("own").await);
        let taken = fork.ask(&format!("hold brief {LONG} 200")).await;
        assert!(taken.starts_with("held "), "{taken}");
        assert_eq!(fork.ask("lost brief 10000").await, "held_too_long in time");
        fork.end_fork("return").await;
        assert!(parent.ask("reap").await.ends_with(", 0)"));
        assert_eq!(parent.ask(&format!("release {LOCK}")).await, "ok");
        scene.take_at_once("brief").await.release().await.expect("held");
    }
}

/// What the fork wants to be told of must not move the hour its parent is told at.
#[tokio::test]
async fn a_fork_does_not_silence_its_parents_alarm() {
    let scene = Scene::new().await;
    let mut parent = scene.subject(Api::Blocking);
    let taken = parent.ask(&format!("hold {LOCK} {LONG} 2000")).await;
    assert!(taken.starts_with("held "), "{taken}");
    assert_eq!(parent.ask(&format!("lost {LOCK} 1")).await, "no");
    let mut fork = parent.fork().await;
    parent.tell(&format!("lost {LOCK} 20000")).await;
    assert_eq!(fork.answer().await, "fork");
    assert_eq!(fork.ask("connect").await, "ok");
    assert!(fork.ask(&format!("hold own {LONG}")).await.starts_with("held "));
    // An alarm far away, set while the parent's is near.
    fork.tell("lost own 20000").await;
    assert_eq!(parent.answer().await, "held_too_long in time");
}

#[tokio::test]
async fn a_killed_holders_fork_does_not_keep_the_lock_alive() {
    let scene = Scene::new().await;
    let mut parent = scene.subject(Api::Blocking);
    hold(&mut parent, LOCK, &TTL.to_string()).await;
    let mut fork = parent.fork().await;
    assert_eq!(fork.answer().await, "fork");
    parent.kill().await;
    // The fork has the parent's session open, so only the end of the lease can tell.
    let next = scene.take_at_once(LOCK).await;
    assert_eq!(fork.ask(&format!("certain {LOCK}")).await, "false", "it lives, and holds nothing");
    pause(TTL).await;
    assert!(next.is_certain());
    next.release().await.expect("held");
    fork.end_fork("exit").await;
}
