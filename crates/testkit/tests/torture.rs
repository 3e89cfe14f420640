//! Random `kill -9` under contention. Longer by hand: `LATCH_TORTURE_SECONDS=60 cargo test -p testkit --test torture`.

use std::time::Duration;

use latchwork::LockName;
use latchwork::clock::{Clock, random_bytes};
use testkit::Fixture;
use testkit::fixtures::SqliteFixture;
use testkit::history::checks::{Expectations, check_all};
use testkit::history::{History, Recorder};
use testkit::worker::Worker;

const WORKERS: usize = 6;
/// The workers' ttl is the default of 30 s; a dead holder must be noticed within a tenth of it.
const EXPECTED: Expectations = Expectations {
    answer_within: Duration::from_secs(10),
    idle_at_most: Duration::from_secs(3),
    queued_after: None,
    left: None,
};

fn seconds() -> u64 {
    std::env::var("LATCH_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

#[tokio::test]
async fn random_kills_never_make_two_holders_nor_a_token_go_back_nor_a_stall() {
    let fixture = SqliteFixture::begin().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (url, path) = (fixture.url().expect("shared"), folder.path().join("history"));
    let recorder = Recorder::shared(&path);
    let start = || Worker::start(&["churn", &url, "churn", &path.display().to_string()]);
    let mut workers: Vec<_> = (0..WORKERS).map(|_| start()).collect();
    let (clock, mut kills, mut longest_log) = (Clock::boottime(), 0, 0);
    let end = clock.now().after(Duration::from_secs(seconds()));
    while clock.now() < end {
        let [pause, victim] = random_bytes::<2>();
        tokio::time::sleep(Duration::from_millis(20 + u64::from(pause))).await;
        let victim = &mut workers[usize::from(victim) % WORKERS];
        recorder.killed(victim.pid());
        victim.kill().await;
        kills += 1;
        *victim = start();
        longest_log = longest_log.max(fixture.log().len());
    }
    for mut worker in workers {
        recorder.killed(worker.pid());
        worker.kill().await;
    }
    let history = History::read(&path);
    let stats = check_all(&history, &SqliteFixture::guarantees(), &EXPECTED).expect("every promise is kept");
    stats.iter().for_each(|stats| println!("{stats}"));
    let mut contended = 0;
    for name in ["churn", "churn-wire"] {
        let lock = LockName::new(name).expect("a good name");
        let processes: Vec<_> = history.holds_of(&lock).map(|hold| hold.who.process).collect();
        contended += processes.len();
        let changes = processes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        println!("{name}: {} holds, {changes} times to another process", processes.len());
        assert!(changes > 200, "too little happened to show anything");
    }
    let verdict: String =
        fixture.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("answers");
    let (total, torn) = (history.holds().len(), history.torn());
    println!(
        "{total} holds ({contended} contended), {kills} kills, {torn} torn lines, longest log {longest_log} bytes, integrity {verdict}"
    );
    assert_eq!(verdict, "ok");
    assert!(longest_log < 16 << 20, "the log grew to {longest_log} bytes");
    assert!(total > 1_000 && kills > 20, "too little happened to show anything");
}
