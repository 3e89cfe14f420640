//! Many processes, some of which are killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;
use nix::sys::signal::Signal;

use super::support::{hold, nothing_left, pause, waiters};
use crate::Fixture;
use crate::history::History;
use crate::history::checks::{Expectations, check_all};
use crate::worker_process::WorkerProcess;

/// Longer than any wait in these cases.
const CASE_LIMIT: Duration = Duration::from_secs(100);

fn url<F: Fixture>(fixture: &F) -> String {
    fixture.url().expect("this engine is shared between processes")
}

/// Checks a history in which every process ended by itself, and returns the number of its holds.
fn check_everything<F: Fixture>(path: &Path) -> usize {
    let history = History::read(path);
    let expected =
        Expectations { answer_within: CASE_LIMIT, idle_at_most: CASE_LIMIT, queued_after: None, left: None };
    let stats = check_all(&history, &F::guarantees(), &expected).expect("every guarantee is kept");
    assert!(stats.iter().all(|stats| stats.excused == 0));
    history.holds().len()
}

pub(super) async fn four_processes_count_to_ten_thousand<F: Fixture>(fixture: Arc<F>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (url, file, history) = (url(&*fixture), path("counter"), path("history"));
    fixture.client().await;
    let start = |_| WorkerProcess::start(&["count", &url, "count", &file, &history, "25", "100"]);
    for mut worker in (0..4).map(start).collect::<Vec<_>>() {
        worker.done().await;
    }
    assert_eq!(std::fs::read_to_string(&file).expect("counted"), "10000");
    assert_eq!(check_everything::<F>(history.as_ref()), 10_000);
    nothing_left(&fixture.client().await, "count").await;
}

pub(super) async fn a_killed_holder_is_noticed_within_a_tenth_of_the_ttl<F: Fixture>(fixture: Arc<F>) {
    if F::guarantees().dead_holder.contains("ttl") {
        return;
    }
    const TTL: Duration = Duration::from_secs(30);
    let (client, clock) = (fixture.client().await, Clock::boottime());
    let mut gaps = Vec::new();
    for round in 0..10 {
        let mut holder = WorkerProcess::start(&["hold", &url(&*fixture), "killed", "30000"]);
        assert_eq!(holder.line().await, "started");
        let token = holder.line().await;
        // Before the waiter is in the queue in odd rounds, after it in even rounds.
        let waiting = {
            let client = client.clone();
            tokio::spawn(async move { (hold(&client, "killed").await, Clock::boottime().now()) })
        };
        if round % 2 == 0 {
            waiters(&client, "killed", 1).await;
        }
        let killed = clock.now();
        holder.kill().await;
        let (guard, held) = waiting.await.expect("no panic");
        assert!(format!("held {}", guard.token().expect("tokens")) > token, "tokens rise");
        gaps.push(held.since(killed));
        guard.release().await.expect("held");
    }
    gaps.sort();
    let flock = killed_flock().await;
    let (median, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!(
        "killed holder noticed after {median:?} (median), {longest:?} (longest); flock {flock:?} (median); ttl {TTL:?}"
    );
    assert!(gaps.iter().all(|gap| *gap < TTL / 10), "{gaps:?}");
}

/// The last waiter watched its predecessor; when that one leaves, it must watch the holder instead.
pub(super) async fn a_killed_holder_is_noticed_behind_a_waiter_that_left<F: Fixture>(fixture: Arc<F>) {
    if F::guarantees().dead_holder.contains("ttl") {
        return;
    }
    let (leaver, last) = (fixture.client().await, fixture.client().await);
    let mut holder = WorkerProcess::start(&["hold", &url(&*fixture), "left", "30000"]);
    assert_eq!(holder.line().await, "started");
    assert!(holder.line().await.starts_with("held"));
    let leaving = {
        let client = leaver.clone();
        tokio::spawn(async move { client.lock("left").wait(Duration::from_secs(2)).acquire().await })
    };
    waiters(&leaver, "left", 1).await;
    let waiting = tokio::spawn(async move { hold(&last, "left").await });
    waiters(&leaver, "left", 2).await;
    leaving.await.expect("no panic").expect_err("the wait timed out");
    pause(50).await;
    holder.kill().await;
    let guard =
        tokio::time::timeout(Duration::from_secs(3), waiting).await.expect("within a tenth of the ttl");
    guard.expect("no panic").release().await.expect("held");
}

/// The median of ten measurements of how long a plain `flock` takes to notice a killed holder.
async fn killed_flock() -> Duration {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let (path, clock) = (file.path().display().to_string(), Clock::boottime());
    let mut gaps = Vec::new();
    for _ in 0..10 {
        let mut holder = WorkerProcess::start(&["flock", &path]);
        assert_eq!(holder.line().await, "held");
        let waiter = file.reopen().expect("the file is there");
        let waiting = tokio::task::spawn_blocking(move || {
            waiter.lock().expect("the lock becomes free");
            Clock::boottime().now()
        });
        pause(20).await;
        let killed = clock.now();
        holder.kill().await;
        gaps.push(waiting.await.expect("no panic").since(killed));
    }
    gaps.sort();
    gaps[gaps.len() / 2]
}

pub(super) async fn killed_waiters_are_skipped<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guard = hold(&client, "skip").await;
    let mut workers = Vec::new();
    for number in 0..6 {
        // A granted waiter ends by itself: noticing a killed holder is another guarantee, which not every
        // engine gives.
        let order = if [0, 2, 4].contains(&number) { "hold" } else { "pass" };
        let ttl = F::WAITERS_TTL.as_millis().to_string();
        workers.push(WorkerProcess::start(&[order, &url(&*fixture), "skip", &ttl]));
        assert_eq!(workers[number].line().await, "started");
        waiters(&client, "skip", number + 1).await;
    }
    // The first, one in the middle, and the one before the last.
    for dead in [0, 2, 4] {
        workers[dead].kill().await;
    }
    guard.release().await.expect("held");
    for alive in [1, 3, 5] {
        let line = tokio::time::timeout(Duration::from_secs(10), workers[alive].line()).await;
        assert!(line.expect("the waiter is granted the lock in its turn").starts_with("held"));
        workers[alive].done().await;
    }
    nothing_left(&client, "skip").await;
}

pub(super) async fn a_stopped_holder_loses_its_lock_after_the_ttl<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    // No shorter than the session, on engines that have one.
    let ttl = F::SHORT.max(Duration::from_secs(1)).as_millis().to_string();
    let mut holder = WorkerProcess::start(&["hold", &url(&*fixture), "stopped", &ttl]);
    assert_eq!(holder.line().await, "started");
    assert!(holder.line().await.starts_with("held"));
    holder.signal(Signal::SIGSTOP);
    let guard = tokio::time::timeout(Duration::from_secs(20), hold(&client, "stopped")).await;
    let guard = guard.expect("the lock becomes free when the lease ends");
    holder.signal(Signal::SIGCONT);
    pause(500).await;
    assert!(guard.is_certain(), "a process that wakes up does not disturb the next holder");
    guard.release().await.expect("held");
    holder.kill().await;
}

pub(super) async fn two_hundred_processes_all_get_their_turn<F: Fixture>(fixture: Arc<F>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (url, file, history) = (url(&*fixture), path("counter"), path("history"));
    let start = |_| WorkerProcess::start(&["count", &url, "crowd", &file, &history, "1", "1"]);
    for mut worker in (0..200).map(start).collect::<Vec<_>>() {
        worker.done().await;
    }
    assert_eq!(std::fs::read_to_string(&file).expect("counted"), "200");
    assert_eq!(check_everything::<F>(history.as_ref()), 200);
    nothing_left(&fixture.client().await, "crowd").await;
}
