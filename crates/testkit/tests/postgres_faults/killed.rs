//! The server is killed (`kill -9`) and started again with what it had on disk; or it ends connections.

use std::time::Duration;

use testkit::crowd::{Crowd, TTL};
use testkit::history::Fault;
use testkit::store::Written;

use super::scene::{LOCK, LONG, SOON, Scene, renewed, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_comes_back_with_holder_and_queue() {
    let scene = Scene::new();
    let clients = scene.clients(4).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut store = scene.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    let mut waiting = Vec::new();
    for (number, client) in clients[1..].iter().enumerate() {
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        scene.until_waiting(&clients[0], number + 1).await;
    }
    scene.strike(Fault::Trouble, || scene.server.restart());
    renewed(&guard).await;
    assert!(guard.is_certain(), "held all the time");
    scene.until_waiting(&clients[0], 3).await;
    assert_eq!(store.write(guard.token().unwrap(), "after"), Written::Accepted);
    let mut newest = guard.token().unwrap();
    guard.release().await.expect("held");
    for waiter in waiting {
        let guard = tokio::time::timeout(SOON, waiter).await.expect("in the order in which they came");
        let guard = guard.expect("no panic").expect("its turn comes");
        assert!(guard.token().unwrap() > newest);
        newest = guard.token().unwrap();
        guard.release().await.expect("held");
    }
    assert_eq!(scene.judge(&clients, SOON).await.exclusive(), 4);
}

/// In the middle of claims, renewals, releases, and transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_were_busy_go_on_after_kills_and_ended_connections() {
    let scene = Scene::new();
    let clients = scene.clients(5).await;
    let crowd = Crowd::gather(&scene, &clients, Duration::from_millis(3));
    for _ in 0..2 {
        crowd.works(20).await;
        scene.strike(Fault::Trouble, || scene.server.restart());
        for _ in 0..3 {
            crowd.works(10).await;
            scene.strike(Fault::Trouble, || scene.terminate_all());
        }
    }
    crowd.works(20).await;
    let tally = crowd.home().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = scene.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 100 && judged.excused() == 0, "nobody is excused");
}
