//! Nothing goes through, and nobody is told: all sockets stay open.

use std::time::Duration;

use latchwork::Loss;
use testkit::history::Fault;
use testkit::store::Written;

use super::crowd::{Crowd, MARGIN, TTL};
use super::scene::{LOCK, LONG, SOON, Scene, now, pause, renewed, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_in_the_dark_is_told_before_its_lease_ends_and_another_has_the_lock_after() {
    let scene = Scene::new();
    let (client, other) = (scene.client().await, scene.direct_client().await);
    let lock = client.lock(LOCK).ttl(TTL).with(|lock| lock.stop_margin(MARGIN));
    let guard = take(&lock).await;
    let mut store = scene.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    renewed(&guard).await;
    scene.recorder.fault_began(Fault::Partition);
    scene.proxy.black_hole(true);
    let rival = other.lock(LOCK).ttl(LONG).wait(LONG);
    let rival = tokio::spawn(async move { rival.acquire().await });
    assert_eq!(guard.lost().await, Loss::Unreachable);
    let (told, early) = (now(), guard.lease_end().since(now()));
    assert!(!early.is_zero(), "told after its lease had ended");
    assert!(!rival.is_finished(), "another had it before");
    let next = rival.await.expect("no panic").expect("its turn comes");
    println!("told {early:?} before its lease ended, and {:?} before another had it", now().since(told));
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    drop(guard);
    scene.proxy.black_hole(false);
    scene.recorder.fault_ended(Fault::Partition);
    // Renewals and a release that were held back arrive now.
    pause(500).await;
    assert!(next.is_certain(), "what came late took the lock away");
    next.release().await.expect("held");
    assert_eq!(scene.judge(&[client, other], SOON).await.exclusive(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_on_both_sides_of_a_partition_never_hold_at_once_and_all_go_on_when_it_heals() {
    let scene = Scene::new();
    let mut clients = scene.clients(3).await;
    for _ in 0..3 {
        clients.push(scene.direct_client().await);
    }
    let crowd = Crowd::gather(&scene, &clients, Duration::from_millis(5));
    for _ in 0..2 {
        pause(200).await;
        scene.recorder.fault_began(Fault::Partition);
        scene.proxy.black_hole(true);
        pause(2_500).await;
        scene.proxy.black_hole(false);
        scene.recorder.fault_ended(Fault::Partition);
    }
    pause(1_500).await;
    let tally = crowd.home().await;
    assert_eq!(tally.refused, 0, "a certain holder was refused: {tally:?}");
    let judged = scene.judge(&clients, SOON + SOON).await;
    assert!(judged.exclusive() > 200 && judged.excused() == 0, "too little happened to show anything");
}
