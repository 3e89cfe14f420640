//! The server has no memory left, and refuses to evict.

use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::history::Fault;

use super::crowd::TTL;
use super::scene::{LOCK, LONG, SOON, Scene, pause, renewed, take};

/// From now on nothing that needs memory is allowed; or everything is again.
fn set_full(scene: &Scene, full: bool) {
    let bytes = if full { "1" } else { "0" };
    assert!(scene.server.command(&["CONFIG", "SET", "maxmemory", bytes]).is("OK"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_fails_with_the_knob_in_its_error_and_nothing_was_done() {
    let scene = Scene::new();
    let client = scene.client().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    set_full(&scene, true);
    for lock in [client.lock(LOCK), client.lock(LOCK).wait(Duration::from_millis(100))] {
        let error = lock.try_acquire().await.expect_err("no room");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
        let error = lock.wait(Duration::from_millis(100)).acquire().await.expect_err("no room");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    let newcomer = scene.client().await;
    newcomer.lock(LOCK).try_acquire().await.expect_err("who comes now finds no room either");
    set_full(&scene, false);
    take(&client.lock(LOCK)).await.release().await.expect("held");
    scene.judge(&[client, newcomer], SOON).await;
}

/// Longer than any place in the queue lasts by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_renewed_and_handed_over_and_released_however_long_memory_is_short() {
    let scene = Scene::new();
    let clients = scene.clients(3).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut waiting = Vec::new();
    for (number, client) in clients[1..].iter().enumerate() {
        let lock = client.lock(LOCK).ttl(TTL).wait(LONG);
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        scene.until_waiting(&clients[0], number + 1).await;
    }
    scene.recorder.fault_began(Fault::Trouble);
    set_full(&scene, true);
    pause(3_500).await;
    renewed(&guard).await;
    guard.release().await.expect("held");
    for waiter in waiting {
        let guard = tokio::time::timeout(SOON, waiter).await.expect("in the order in which they came");
        let guard = guard.expect("no panic").expect("it was handed over");
        renewed(&guard).await;
        guard.release().await.expect("held");
    }
    set_full(&scene, false);
    scene.recorder.fault_ended(Fault::Trouble);
    assert_eq!(scene.judge(&clients, SOON).await.exclusive(), 3);
}
