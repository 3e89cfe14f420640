//! A server that is alone is killed and comes back with its data; and one that forgets what it was.

use std::time::Duration;

use testkit::crowd::Crowd;
use testkit::history::Fault;

use super::scene::{LOCK, LONG, SOON, Scene, Theatre, renewed, take};

const TTL: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_comes_back_with_holder_and_queue() {
    let scene = Scene::one();
    let clients = scene.clients(4).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let line = scene.line_up(&clients[1..], LONG).await;
    let before = scene.keys();
    scene.strike(Fault::Restart, || scene.servers.restart());
    assert_eq!(scene.keys(), before);
    renewed(&guard).await;
    renewed(&guard).await;
    assert!(guard.is_certain(), "held all the time");
    line.served_after(guard).await;
    assert_eq!(scene.judge(&clients, SOON).await.excused(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_were_busy_go_on_after_the_kill_as_if_nothing_had_happened() {
    let scene = Scene::one();
    let clients = scene.clients(5).await;
    let crowd = Crowd::gather(&scene, &clients, Duration::from_millis(3));
    for _ in 0..3 {
        crowd.works(20).await;
        scene.strike(Fault::Restart, || scene.servers.restart());
    }
    crowd.works(20).await;
    let tally = crowd.home().await;
    assert!(tally.refused == 0 && tally.only_unreachable_or_lost(), "{tally:?}");
    let judged = scene.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 80 && judged.excused() == 0, "nobody is excused");
}

/// A watch that asked for what was forgotten is ended by the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_stuck_when_the_server_forgets_old_revisions() {
    let scene = Scene::one();
    let clients = scene.clients(9).await;
    let guard = take(&clients[0].lock("held").ttl(TTL)).await;
    let holder = take(&clients[1].lock(LOCK)).await;
    let line = scene.line_up(&clients[2..5], LONG).await;
    // Behind the line, because the lock is the same.
    let crowd = Crowd::gather(&scene, &clients[5..], Duration::from_millis(2));
    scene.until_keys(8).await;
    for _ in 0..10 {
        let status = scene.etcdctl(&["put", "tick", "tock", "--write-out=fields"]);
        let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
        scene.etcdctl(&["compact", revision.expect("a revision")]);
    }
    line.served_after(holder).await;
    crowd.works(20).await;
    let tally = crowd.home().await;
    assert!(tally.is_undisturbed() && tally.errors.is_empty(), "{tally:?}");
    renewed(&guard).await;
    guard.release().await.expect("held");
    scene.etcdctl(&["del", "tick"]);
    let judged = scene.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 25 && judged.excused() == 0, "nobody is excused");
}
