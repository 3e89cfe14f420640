//! Many want one lock.

use testkit::rivals::Rivals;
use testkit::rows::Scene as _;
use testkit::stage::LOCK;

use super::scene::Scene;

/// On a server with its own settings, which lets in 151.
const RIVALS: Rivals = Rivals { processes: 4, clients: 25, turns: 10 };
const MOST_CONNECTIONS: u64 = 151;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_contenders_in_four_processes_need_a_connection_each_and_have_their_turns_in_order() {
    let scene = Scene::new();
    let contest = RIVALS.taking(1_000).compete(&scene.direct_url()).await;
    let most = scene.server.most_connections();
    println!("at most {most} connections");
    assert!((100..=MOST_CONNECTIONS).contains(&most), "{most}");
    let client = scene.observer().await;
    contest.is_judged(client.client());
    contest.is_fair();
    assert!(scene.state(&client).await.is_none(), "{LOCK} is free");
    println!("{} deadlocks, which were repeated", scene.server.deadlocks());
}
