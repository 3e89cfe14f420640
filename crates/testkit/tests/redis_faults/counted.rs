//! What waiting costs the server.

use std::time::Duration;

use testkit::worker::Worker;

use super::scene::{LOCK, Scene, now};

const PROCESSES: u64 = 4;
const CLIENTS: u64 = 4;
const SPAN: Duration = Duration::from_secs(2);

/// Lets 16 clients in four processes take one lock in turns, and counts what the server was asked.
async fn contend(hold: Duration, least: u64) {
    let scene = Scene::new();
    let begun = now();
    let [span, hold] = [SPAN, hold].map(|span| span.as_millis().to_string());
    let start =
        |_| Worker::start(&["contend", &scene.direct_url(""), LOCK, &CLIENTS.to_string(), &span, &hold]);
    let mut workers: Vec<_> = (0..PROCESSES).map(start).collect();
    let mut taken = 0;
    for worker in &mut workers {
        let line = worker.line().await;
        let times = line.strip_prefix("took ").and_then(|times| times.parse::<u64>().ok());
        taken += times.unwrap_or_else(|| panic!("{line:?}"));
        worker.done().await;
    }
    let seconds = now().since(begun).as_secs() + 1;
    let (asked, published) = (scene.server.calls(&["evalsha"]), scene.server.calls(&["publish"]));
    println!("{taken} turns of {hold} ms: {asked} requests and {published} messages in {seconds} s");
    assert!(taken >= least, "too little happened to show anything");
    assert!(
        asked <= 2 * taken + PROCESSES * CLIENTS * seconds,
        "a claim and a release for each of {taken} turns and a sign of life a second for each client are fewer \
         than {asked}"
    );
    assert!(published <= taken, "one waiter is told of each release, and not {published} of {taken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_among_sixteen_costs_two_requests() {
    contend(Duration::ZERO, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_long_costs_one_request_a_second() {
    contend(Duration::from_millis(200), 16).await;
}
