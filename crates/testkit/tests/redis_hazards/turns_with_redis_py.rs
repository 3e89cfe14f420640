//! Many turns of our clients and of redis-py's on one lock.
//!
//! A longer run: `LATCH_TURNS=2000 cargo test -p testkit --test redis_hazards turns -- --nocapture`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use testkit::history::checks::{Excuses, exclusion};
use testkit::history::{History, RecordedClient, Recorder};
use tokio::task::JoinSet;

use super::harness::{HazardHarness, LOCK, LONG};
use super::redis_py;

/// The number of clients on each side.
const CLIENTS: usize = 3;
/// The limit for a whole run and for each wait.
const PATIENCE: Duration = Duration::from_secs(300);

fn turns() -> u32 {
    std::env::var("LATCH_TURNS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// A lock, a counter that nothing else protects, and a history.
struct TurnRun {
    harness: HazardHarness,
    folder: TempDir,
    /// The total number of turns.
    turns: u32,
    /// The length of a turn, and the pause after it.
    hold: Duration,
    pause: Duration,
}

impl TurnRun {
    fn new(hold: Duration, pause: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run = Self { harness: HazardHarness::new(), folder, turns: turns(), hold, pause };
        std::fs::write(run.counter(), "0").expect("the folder is ours");
        run
    }

    fn counter(&self) -> PathBuf {
        self.folder.path().join("counter")
    }

    fn history(&self) -> PathBuf {
        self.folder.path().join("history")
    }

    /// Runs several clients of each side to the end, ours with these options, and returns the turns of each
    /// side: ours, and theirs.
    async fn run_clients(&self, options: &str) -> [u32; 2] {
        let (recorder, mut ours) = (Recorder::shared(&self.history()), JoinSet::new());
        let mut theirs: Vec<_> = (0..CLIENTS).map(|_| redis_py::start(&self.harness, LONG)).collect();
        for python in &mut theirs {
            assert_eq!(python.ask("owned").await, "False", "it is ready");
        }
        for python in &mut theirs {
            python.tell(&self.order()).await;
        }
        for _ in 0..CLIENTS {
            let client = recorder.client(self.harness.client(options).await);
            ours.spawn(take_turns(client, self.counter(), self.turns, self.hold, self.pause));
        }
        let ours = ours.join_all().await.into_iter().sum();
        let mut shares = [ours, 0];
        for python in &mut theirs {
            shares[1] += python.answer_within(PATIENCE).await.parse::<u32>().expect("a number of turns");
        }
        println!("{} turns with {options:?}: {} ours, {} theirs", self.turns, shares[0], shares[1]);
        self.check(shares);
        shares
    }

    /// The arguments of [`take_turns`], for redis-py.
    fn order(&self) -> String {
        let [counter, history] = [self.counter(), self.history()].map(|path| path.display().to_string());
        let [hold, pause] = [self.hold, self.pause].map(|span| span.as_secs_f64());
        format!("turns {counter} {history} {} {hold} {pause}", self.turns)
    }

    fn check(&self, shares: [u32; 2]) {
        assert_eq!(read(&self.counter()), self.turns, "no turn was lost");
        assert_eq!(shares[0] + shares[1], self.turns, "no turn was counted twice");
        let history = History::read(&self.history());
        let judged = exclusion(&history, &Excuses::none()).expect("one at a time").judged;
        assert_eq!(judged, self.turns as usize + 2 * CLIENTS, "each client saw the end, too");
    }
}

/// Takes turns until the counter has reached `until`, and returns their number.
async fn take_turns(
    client: RecordedClient,
    counter: PathBuf,
    until: u32,
    hold: Duration,
    pause: Duration,
) -> u32 {
    let (lock, mut turns) = (client.lock(LOCK).ttl(LONG).wait(PATIENCE), 0);
    loop {
        let guard = lock.acquire().await.expect("the lock becomes free");
        let now = read(&counter);
        if now < until {
            tokio::time::sleep(hold).await;
            std::fs::write(&counter, (now + 1).to_string()).expect("the folder is ours");
            turns += 1;
        }
        guard.release().await.expect("held until here");
        if now >= until {
            return turns;
        }
        tokio::time::sleep(pause).await;
    }
}

fn read(counter: &Path) -> u32 {
    let text = std::fs::read_to_string(counter).expect("the folder is ours");
    text.parse().unwrap_or_else(|_| panic!("the counter says {text:?}"))
}

/// The pauses are so long that our clients do not always wait for each other: otherwise nothing would be left
/// for clients that poll.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_both_clients_never_overlap_and_none_is_lost() {
    let run = TurnRun::new(Duration::from_millis(2), Duration::from_millis(25));
    let [ours, theirs] = run.run_clients("").await;
    assert!(ours > 0 && theirs > 0, "{ours} and {theirs}");
}

/// Clients that claim again at once are the hardest to be fair with: redis-py's own clients starve each
/// other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_gap_each_side_gets_at_least_a_fifth_of_the_turns() {
    let run = TurnRun::new(Duration::from_millis(5), Duration::ZERO);
    let [ours, theirs] = run.run_clients("handover=wake").await;
    let fifth = run.turns / 5;
    assert!(ours >= fifth && theirs >= fifth, "{ours} ours, {theirs} theirs");
}
