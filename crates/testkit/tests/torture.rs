//! Random `kill -9`, and `SIGSTOP` where leases decide, under contention. A longer run:
//! `LATCH_TORTURE_SECONDS=60 cargo test -p testkit --test torture`.

use std::time::Duration;

use latchwork::clock::{Clock, Moment, random_bytes};
use latchwork::{Guarantees, LockName};
use nix::sys::signal::Signal;
use testkit::Fixture;
use testkit::fixtures::SqliteFixture;
use testkit::history::checks::{Expectations, check_all};
use testkit::history::{History, Recorder};
use testkit::servers::{RedisOptions, RedisServer};
use testkit::worker_process::WorkerProcess;
use tokio::sync::Mutex;

const WORKERS: usize = 6;
/// One test at a time, because idle time of a lock is judged.
static ALONE: Mutex<()> = Mutex::const_new(());
/// The workers' ttl is the default of 30 s; a dead holder must be noticed within a tenth of it.
const EXPECTED: Expectations = Expectations {
    answer_within: Duration::from_secs(10),
    idle_at_most: Duration::from_secs(3),
    queued_after: None,
    left: None,
};

/// Where leases decide, a dead holder costs its ttl, and a stopped one too. Then a stopped waiter may be
/// next, and keeps the lock for the rest of its queue entry. `Guarantees` allows four seconds on top of the
/// ttl.
const TTL: Duration = Duration::from_secs(1);
const EXPECTED_OF_LEASES: Expectations = Expectations {
    answer_within: Duration::from_secs(20),
    idle_at_most: Duration::from_secs(5),
    queued_after: None,
    left: None,
};

fn seconds() -> u64 {
    std::env::var("LATCH_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

/// Judges the record, and that enough happened: the lock moved between processes at least this often.
fn judge(history: &History, promised: &Guarantees, expected: &Expectations, least: usize) {
    let stats = check_all(history, promised, expected).unwrap_or_else(|violation| panic!("{violation}"));
    stats.iter().for_each(|stats| println!("{stats}"));
    for name in ["churn", "churn-wire"] {
        let lock = LockName::new(name).expect("a good name");
        let processes: Vec<_> = history.holds_of(&lock).map(|hold| hold.who.process).collect();
        let changes = processes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        println!("{name}: {} holds, {changes} times to another process", processes.len());
        assert!(changes > least, "too little happened to show anything");
    }
}

#[tokio::test]
async fn random_kills_never_cause_two_holders_or_a_falling_token_or_a_stall() {
    let _alone = ALONE.lock().await;
    let fixture = SqliteFixture::begin().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (url, path) = (fixture.url().expect("shared"), folder.path().join("history"));
    let recorder = Recorder::shared(&path);
    let start = || WorkerProcess::start(&["churn", &url, "churn", &path.display().to_string()]);
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
    judge(&history, &SqliteFixture::guarantees(), &EXPECTED, 200);
    let verdict: String =
        fixture.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("answers");
    let (total, torn) = (history.holds().len(), history.torn());
    println!(
        "{total} holds, {kills} kills, {torn} torn lines, longest log {longest_log} bytes, integrity {verdict}"
    );
    assert_eq!(verdict, "ok");
    assert!(longest_log < 16 << 20, "the log grew to {longest_log} bytes");
    assert!(total > 1_000 && kills > 20, "too little happened to show anything");
}

/// Pauses are not recorded as faults: a guard knows by itself when its lease has ended, and two guards must
/// never be certain at once however long one of them was stopped.
#[tokio::test]
async fn random_kills_and_stops_on_redis_never_cause_two_holders_or_a_falling_token_or_a_stall() {
    let _alone = ALONE.lock().await;
    let server = RedisServer::start(RedisOptions::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (url, path) = (format!("redis://{}", server.address()), folder.path().join("history"));
    let (recorder, millis) = (Recorder::shared(&path), TTL.as_millis().to_string());
    let [history, stores] = [&path, folder.path()].map(|path| path.display().to_string());
    let start = || WorkerProcess::start(&["storm", &url, "churn", &history, &stores, &millis]);
    let mut workers: Vec<_> = (0..WORKERS).map(|_| start()).collect();
    let (clock, mut stopped, mut kills, mut stops) = (Clock::boottime(), None::<(usize, Moment)>, 0, 0);
    let end = clock.now().after(Duration::from_secs(seconds()));
    while clock.now() < end {
        let [pause, victim, span, choice] = random_bytes::<4>();
        tokio::time::sleep(Duration::from_millis(50 + u64::from(pause))).await;
        let victim = usize::from(victim) % WORKERS;
        assert!(!workers[victim].has_ended(), "a worker saw a broken guarantee");
        match stopped {
            Some((asleep, until)) if clock.now() >= until => {
                workers[asleep].signal(Signal::SIGCONT);
                stopped = None;
            }
            None if choice % 2 == 0 => {
                workers[victim].signal(Signal::SIGSTOP);
                stops += 1;
                stopped = Some((victim, clock.now().after(TTL * u32::from(span) / 100)));
            }
            _ => {
                recorder.killed(workers[victim].pid());
                workers[victim].kill().await;
                kills += 1;
                workers[victim] = start();
                stopped = stopped.filter(|(asleep, _)| *asleep != victim);
            }
        }
    }
    for (number, mut worker) in workers.into_iter().enumerate() {
        assert!(!worker.has_ended(), "worker {number} saw a broken guarantee");
        recorder.killed(worker.pid());
        worker.kill().await;
    }
    let (record, client) =
        (History::read(&path), latchwork::connect(&url).await.expect("the server accepts the connection"));
    judge(&record, &client.guarantees(), &EXPECTED_OF_LEASES, 50);
    let (total, torn) = (record.holds().len(), record.torn());
    println!("{total} holds, {kills} kills, {stops} stops, {torn} torn lines");
    assert!(total > 1_000 && kills > 20 && stops > 3, "too little happened to show anything");
}
