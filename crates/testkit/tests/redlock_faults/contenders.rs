//! Many want one lock, and there is no queue.

use std::time::Duration;

use testkit::history::History;
use testkit::history::checks::{Expectations, check_all};
use testkit::worker::Worker;

use super::scene::{LOCK, LONG, SOON, Scene};

const PROCESSES: usize = 4;
const CLIENTS: usize = 5;
const TURNS: usize = 10;

/// Votes are split again and again, and somebody always wins in the end.
async fn compete(masters: usize) {
    let scene = Scene::new();
    let url = scene.direct_url(masters, "quarantine=off&node-timeout=500ms");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file, history] = ["counter", "history"].map(|name| folder.path().join(name).display().to_string());
    let [clients, turns] = [CLIENTS, TURNS].map(|number| number.to_string());
    let start = |_| Worker::start(&["rivals", &url, LOCK, &file, &history, &clients, &turns]);
    for mut worker in (0..PROCESSES).map(start).collect::<Vec<_>>() {
        worker.done().await;
    }
    let all = PROCESSES * CLIENTS * TURNS;
    assert_eq!(std::fs::read_to_string(&file).expect("they counted"), all.to_string());
    scene.until_keys(LOCK, 0, SOON).await;
    let history = History::read(history.as_ref());
    let expected = Expectations { answer_within: LONG, idle_at_most: SOON, queued_after: None, left: None };
    let promised = latchwork::connect(&url).await.expect("they run").guarantees();
    let stats = check_all(&history, &promised, &expected).unwrap_or_else(|violation| panic!("{violation}"));
    stats.iter().for_each(|stats| println!("{stats}"));
    let mut waits: Vec<Duration> =
        history.attempts().iter().map(|attempt| attempt.ended().at.since(attempt.invoked.at)).collect();
    waits.sort();
    let [middle, late] = [all / 2, all * 99 / 100].map(|at| waits[at]);
    println!(
        "{masters} masters, {PROCESSES} processes of {CLIENTS}: wait p50 {middle:?}, p99 {late:?}, {all} turns"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_contenders_in_four_processes_all_get_their_turns() {
    compete(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_contenders_all_get_their_turns_with_four_masters_where_half_is_no_majority() {
    compete(4).await;
}
