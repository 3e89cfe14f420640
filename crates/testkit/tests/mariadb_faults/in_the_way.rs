//! Others who lock our rows: deadlocks and waits that are too long did nothing, are tried again, and are nobody's error.

use testkit::rows::Scene as _;
use testkit::stage::{LOCK, LONG, SOON, now, pause, take};

use super::scene::Scene;

/// Waits until somebody's transaction has what it locks, and sleeps with it.
pub(crate) async fn until_it_sleeps(scene: &Scene) {
    let end = now().after(SOON);
    while scene.sql("SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'") == "0"
    {
        assert!(now() < end, "nobody keeps the row");
        pause(5).await;
    }
}

/// A statement waits for 3 s, and is then refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_kept_for_longer_than_a_statement_waits_costs_time_and_no_error() {
    let scene = Scene::new();
    let client = scene.observer().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    let keep = "START TRANSACTION; SELECT name FROM latchwork_lock FOR UPDATE; DO SLEEP(3.5); COMMIT";
    let keeper = scene.server.sql_in_background(keep);
    until_it_sleeps(&scene).await;
    let guard = client.lock(LOCK).ttl(LONG).wait(LONG).acquire().await.expect("nobody holds the lock");
    assert!(keeper.wait_with_output().expect("it ends").status.success());
    guard.release().await.expect("held");
    scene.judge(&[client], LONG).await;
}

/// We lock the row of the lock and then the queue; they do it the other way round, and have more to lose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_with_others_is_nobodys_error() {
    let scene = Scene::new();
    let (holder, waiter) = (scene.observer().await, scene.observer().await);
    let held = take(&holder.lock(LOCK).ttl(LONG)).await;
    let lock = waiter.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    scene.until_waiting(&holder, 1).await;
    let many = vec!["(1)"; 100].join(", ");
    let other = scene.server.sql_in_background(&format!(
        "START TRANSACTION; INSERT INTO door VALUES {many}; SELECT name FROM latchwork_claim FOR UPDATE; DO SLEEP(1); \
         SELECT name FROM latchwork_lock FOR UPDATE; COMMIT"
    ));
    until_it_sleeps(&scene).await;
    held.release().await.expect("held");
    assert!(other.wait_with_output().expect("it ends").status.success(), "we gave way");
    waiting.await.expect("no panic").expect("its turn comes").release().await.expect("held");
    assert_eq!(scene.server.deadlocks(), 1);
    scene.judge(&[holder, waiter], LONG).await;
}
