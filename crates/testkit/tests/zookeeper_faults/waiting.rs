//! What a waiter asks for while nothing happens.

use std::time::Duration;

use super::scene::{LASTING, LOCK, LONG, SOON, Scene, now, pause, take, until_nodes};

/// A look at three nodes in every third of its session, in one write, and a sign of life in every eighth. To list the queue and
/// to set its watches again would be two writes more, and the list grows with the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_asks_for_a_few_nodes_now_and_then_and_never_for_the_whole_queue() {
    let scene = Scene::one();
    let (holder, waiter, admin) =
        (scene.rival(LASTING).await, scene.client("1500ms").await, scene.admin().await);
    let guard = take(&holder.lock(LOCK).ttl(LONG)).await;
    let lock = waiter.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_nodes(&admin, LOCK, 2).await;
    // It looks around and sets its watches.
    pause(200).await;
    let (begun, before) = (now(), scene.proxy().requests());
    pause(2_500).await;
    let writes = scene.proxy().requests() - before;
    let thirds = now().since(begun).as_secs_f64() / Duration::from_millis(500).as_secs_f64();
    println!("{writes} writes in {thirds:.1} thirds of a session");
    assert!(
        writes as f64 <= (1.0 + 8.0 / 3.0) * thirds + 2.0,
        "{writes} writes in {thirds:.1} thirds of a session"
    );
    guard.release().await.expect("held");
    testkit::line::served(waiting).await.release().await.expect("held");
    scene.judge(&[holder, waiter], SOON).await;
}
