//! The server is killed (`kill -9`) and started again with what it had on disk.

use std::time::Duration;

use testkit::crowd::Crowd;
use testkit::history::Fault;
use testkit::play::outlives_a_restart;
use testkit::servers::RedisOptions;

use super::scene::{SOON, Scene};

/// Written before it is answered: with `everysec`, a kill can cost what waited behind a slow disk.
pub(crate) fn durable() -> RedisOptions<'static> {
    RedisOptions { aof: true, config: vec![("appendfsync".into(), "always".into())], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wrote_its_locks_down_comes_back_with_holder_and_queue() {
    let scene = Scene::with(durable());
    let clients = scene.clients(4).await;
    outlives_a_restart(&scene, &clients, || scene.server.restart()).await;
    assert_eq!(scene.judge(&clients, SOON).await.exclusive(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_were_busy_go_on_after_the_kill_as_if_nothing_had_happened() {
    let scene = Scene::with(durable());
    let clients = scene.clients(5).await;
    let crowd = Crowd::gather(&scene, &clients, Duration::from_millis(3));
    for _ in 0..3 {
        crowd.works(20).await;
        scene.strike(Fault::Trouble, || scene.server.restart());
    }
    crowd.works(20).await;
    let tally = crowd.home().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = scene.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 80 && judged.excused() == 0, "nobody is excused");
}
