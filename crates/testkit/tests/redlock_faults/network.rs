//! Answers are lost, or late.

use super::scene::{LOCK, LONG, SOON, Scene, pause, take};

/// Longer than a machine with other work takes for an answer.
const OPTIONS: &str = "quarantine=off&node-timeout=200ms";

/// Whatever two masters did without being heard, nothing is left of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_of_two_masters_leave_nothing_behind() {
    let scene = Scene::new();
    let client = scene.client(OPTIONS).await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    for round in 0..4 {
        for at in [round % 5, (round + 2) % 5] {
            scene.proxies[at].lose_next_reply();
        }
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        guard.release().await.expect("held");
        scene.until_keys(LOCK, 0, SOON).await;
    }
    scene.judge(&[client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_answers_are_not_waited_for_and_leave_nothing_behind() {
    let scene = Scene::new();
    let (client, rival) = (scene.client(OPTIONS).await, scene.client(OPTIONS).await);
    let late = || [&scene.proxies[0], &scene.proxies[3]].into_iter();
    late().for_each(|proxy| proxy.delay(std::time::Duration::from_millis(700)));
    for _ in 0..3 {
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        assert!(rival.lock(LOCK).try_acquire().await.expect("a majority answers").is_none());
        guard.release().await.expect("held");
    }
    late().for_each(|proxy| proxy.delay(std::time::Duration::ZERO));
    pause(1_000).await;
    scene.until_keys(LOCK, 0, SOON).await;
    scene.judge(&[client, rival]).await;
}

/// Four clients that all want it at once, on an even number of masters, where votes can be split evenly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_votes_end_also_with_four_masters() {
    let scene = Scene::new();
    let places: Vec<_> = scene.proxies[..4].iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("redlock://{}?quarantine=off&node-timeout=200ms", places.join(","));
    let warnings = latchwork::connect(&url).await.expect("it runs").guarantees().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("odd number")), "{warnings:?}");
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(scene.connect(&url).await);
    }
    let turns = clients.iter().map(|client| {
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        tokio::spawn(async move {
            for _ in 0..10 {
                lock.clone().acquire().await.expect("its turn comes").release().await.expect("held");
            }
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await.expect("no panic");
    }
    let judged = scene.judge(&clients).await;
    assert!(judged.exclusive() >= 40);
}
