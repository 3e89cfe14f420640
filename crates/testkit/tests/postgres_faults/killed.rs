//! The server is killed (`kill -9`) and started again with what it had on disk; or it ends connections.

use std::time::Duration;

use testkit::crowd::Crowd;
use testkit::history::Fault;
use testkit::play::outlives_a_restart;

use super::scene::{SOON, Scene};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_comes_back_with_holder_and_queue() {
    let scene = Scene::new();
    let clients = scene.clients(4).await;
    outlives_a_restart(&scene, &clients, || scene.server.restart()).await;
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
