//! Random `kill -9` under contention. Longer by hand: `LATCH_TORTURE_SECONDS=60 cargo test -p testkit --test torture`.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use latchwork::clock::{Clock, random_bytes};
use testkit::fixtures::SqliteFixture;
use testkit::worker::Worker;
use testkit::{Fixture, holds};

const WORKERS: usize = 6;
/// The workers' ttl is the default of 30 s; a dead holder must be noticed within a tenth of it.
const LONGEST_STALL: Duration = Duration::from_secs(3);

fn seconds() -> u64 {
    std::env::var("LATCH_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

#[tokio::test]
async fn random_kills_never_make_two_holders_nor_a_token_go_back_nor_a_stall() {
    let fixture = SqliteFixture::begin().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (url, log) = (fixture.url().expect("shared"), folder.path().join("log").display().to_string());
    let start = || Worker::start(&["churn", &url, "churn", &log]);
    let mut workers: Vec<_> = (0..WORKERS).map(|_| start()).collect();
    let (clock, mut killed, mut longest_log) = (Clock::boottime(), HashMap::new(), 0);
    let end = clock.now().after(Duration::from_secs(seconds()));
    while clock.now() < end {
        let [pause, victim] = random_bytes::<2>();
        tokio::time::sleep(Duration::from_millis(20 + u64::from(pause))).await;
        let victim = &mut workers[usize::from(victim) % WORKERS];
        killed.insert(victim.pid(), clock.now());
        victim.kill().await;
        *victim = start();
        longest_log = longest_log.max(fixture.log().len());
    }
    for mut worker in workers {
        killed.insert(worker.pid(), clock.now());
        worker.kill().await;
    }
    let (mut total, mut stall) = (0, Duration::ZERO);
    for file in folder.path().read_dir().expect("readable") {
        let held = holds::read(&file.expect("readable").path());
        holds::check(&held, |pid| killed.get(&pid).copied());
        total += held.len();
    }
    let mut contended = 0;
    for name in ["churn", "churn-wire"] {
        let held = holds::read(Path::new(&format!("{log}.{name}")));
        contended += held.len();
        for pair in held.windows(2) {
            stall = stall.max(Duration::from_micros(pair[1].enter - pair[0].enter));
        }
        let changes = held.windows(2).filter(|pair| pair[0].pid != pair[1].pid).count();
        println!("{name}: {} holds, {changes} times to another process", held.len());
        assert!(changes > 200, "too little happened to show anything");
    }
    let verdict: String =
        fixture.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("answers");
    println!(
        "{total} holds ({contended} contended), {} kills, longest time between two holders {stall:?}, longest log {longest_log} bytes, integrity {verdict}",
        killed.len()
    );
    assert_eq!(verdict, "ok");
    assert!(stall < LONGEST_STALL, "nobody held for {stall:?}");
    assert!(longest_log < 16 << 20, "the log grew to {longest_log} bytes");
    assert!(total > 1_000 && killed.len() > 20, "too little happened to show anything");
}
