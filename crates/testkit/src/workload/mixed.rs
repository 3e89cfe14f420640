//! Tasks that use every recipe on top of locks again and again: readers and writers, permits, several locks
//! at once, campaigns, and writes of a cell; in one process or in many, under any fault.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use latchwork::clock::random_bytes;
use latchwork::engine::{Filter, Mode};
use latchwork::{Error, ErrorKind, Guarantees, Result};
use tokio::task::JoinSet;

use crate::cell_history::CellHistory;
use crate::harness::{now, pause};
use crate::history::{RecordedClient, Recorder};
use crate::seed::Seed;

/// A read-write lock.
pub const SHELF: &str = "shelf";
/// A semaphore with this many permits.
pub const POOL: (&str, u32) = ("pool", 3);
/// The election.
pub const SERVICE: &str = "service";
/// The locks of which each task acquires two at once.
pub const SIDES: [&str; 3] = ["left", "middle", "right"];
/// The cell.
pub const CELL: &str = "number";

/// Longer than any lease, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The file that tells workers to stop.
const OVER: &str = "over";

/// The work of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Read,
    Write,
    Permit,
    Several,
    Lead,
    Set,
}

impl Role {
    /// The roles that an engine with these guarantees supports.
    fn all(promised: &Guarantees) -> Vec<Self> {
        let roles = [
            (Self::Read, promised.read_write),
            (Self::Read, promised.read_write),
            (Self::Write, promised.read_write),
            (Self::Permit, promised.permits),
            (Self::Permit, promised.permits),
            (Self::Several, true),
            (Self::Lead, promised.cells),
            (Self::Set, promised.cells),
        ];
        roles.into_iter().filter(|(_, can)| *can).map(|(role, _)| role).collect()
    }
}

/// Every lock that is used on an engine with these guarantees.
pub fn locks(promised: &Guarantees) -> Vec<&'static str> {
    let shared =
        [(SHELF, promised.read_write), (POOL.0, promised.permits), (SERVICE, promised.cells)].into_iter();
    shared.filter(|(_, can)| *can).map(|(lock, _)| lock).chain(SIDES).collect()
}

/// The running tasks of a client.
pub struct MixedWorkload {
    client: RecordedClient,
    is_over: Arc<AtomicBool>,
    members: Vec<(Role, Arc<AtomicUsize>)>,
    tasks: JoinSet<()>,
}

impl MixedWorkload {
    /// Starts the tasks of this client, with this ttl.
    pub fn start(client: &RecordedClient, ttl: Duration, cells: &Arc<CellHistory>) -> Self {
        let (is_over, mut members, mut tasks) = (Arc::<AtomicBool>::default(), Vec::new(), JoinSet::new());
        for role in Role::all(&client.client().guarantees()) {
            let turns = Arc::<AtomicUsize>::default();
            members.push((role, turns.clone()));
            let chance = Seed::new(u64::from_ne_bytes(random_bytes()));
            let member =
                Member { client: client.clone(), role, ttl, cells: cells.clone(), chance, left_out: 0 };
            tasks.spawn(member.work(is_over.clone(), turns));
        }
        Self { client: client.clone(), is_over, members, tasks }
    }

    /// Waits until each task has had this many more turns: no task may starve.
    ///
    /// # Panics
    /// If a task does not get its turns in time.
    pub async fn wait_for_turns(&self, turns: usize) {
        let end = now().after(PATIENCE);
        for (role, had) in &self.members {
            let enough = had.load(Ordering::Relaxed) + turns;
            while had.load(Ordering::Relaxed) < enough {
                if now() >= end {
                    let everything = Filter::Prefix(String::new());
                    let seen = self.client.client().inspect(&everything);
                    let seen = tokio::time::timeout(Duration::from_secs(5), seen).await;
                    panic!("{role:?} gets no turn any more; locks: {seen:#?}");
                }
                pause(5).await;
            }
        }
    }

    /// Stops the tasks after their current turn.
    ///
    /// # Panics
    /// If a task does not stop in time, or saw a broken guarantee.
    pub async fn stop(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) =
            tokio::time::timeout(PATIENCE, self.tasks.join_next()).await.expect("the tasks end")
        {
            ended.expect("no guarantee was broken");
        }
    }
}

struct Member {
    client: RecordedClient,
    role: Role,
    ttl: Duration,
    cells: Arc<CellHistory>,
    chance: Seed,
    /// The index of the side that is left out. It cycles, because a short run could otherwise hardly use one
    /// of the sides.
    left_out: usize,
}

impl Member {
    async fn work(mut self, is_over: Arc<AtomicBool>, turns: Arc<AtomicUsize>) {
        while !is_over.load(Ordering::Relaxed) {
            match self.turn().await {
                Ok(()) => drop(turns.fetch_add(1, Ordering::Relaxed)),
                Err(error) => bearable(&error),
            }
            self.rest(50, 130).await;
        }
    }

    async fn rest(&mut self, least: u64, most: u64) {
        pause(least + self.chance.below(most - least)).await;
    }

    async fn turn(&mut self) -> Result<()> {
        match self.role {
            Role::Read => self.share(SHELF, Mode::Read).await,
            Role::Write => self.share(SHELF, Mode::Write).await,
            Role::Permit => self.share(POOL.0, Mode::Permit { of: POOL.1 }).await,
            Role::Several => self.take_two().await,
            Role::Lead => self.lead().await,
            Role::Set => self.set().await,
        }
    }

    async fn share(&mut self, lock: &str, mode: Mode) -> Result<()> {
        let guard = self.client.shared_lock(lock, mode).ttl(self.ttl).acquire().await?;
        self.rest(1, 8).await;
        guard.release().await
    }

    async fn take_two(&mut self) -> Result<()> {
        self.left_out += 1;
        // Two pairs in one order, and the third pair in the other.
        let two = [1, 2].map(|after| SIDES[(self.left_out + after) % SIDES.len()]);
        let guard = self.client.multi_lock(&two).ttl(self.ttl).acquire().await?;
        self.rest(1, 8).await;
        guard.release().await
    }

    async fn lead(&mut self) -> Result<()> {
        let election = self.client.election(SERVICE).ttl(self.ttl);
        let leading = election.campaign(&format!("{}", self.client.tag())).await?;
        self.rest(1, 8).await;
        election.leader().await?;
        leading.release().await?;
        election.leader().await.map(drop)
    }

    async fn set(&mut self) -> Result<()> {
        let cell = self.client.client().cell(CELL);
        let seen = self.cells.get(&cell).await?.version;
        self.rest(1, 8).await;
        let value = format!("{:016x}", self.chance.number());
        self.cells.set_if(&cell, seen, value.as_bytes()).await.map(drop)
    }
}

/// Accepts only the errors that may happen to a client that was stopped or cut off.
fn bearable(error: &Error) {
    assert!(
        matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unreachable),
        "a guarantee was broken: {error}"
    );
}

/// The files to which the processes write their records: the history, and that of the cell.
pub fn record_paths(folder: &Path) -> [PathBuf; 2] {
    ["history", "cell"].map(|name| folder.join(name))
}

/// Tells the workers in this folder to stop.
///
/// # Panics
/// If the folder is gone.
pub fn request_stop(folder: &Path) {
    std::fs::write(folder.join(OVER), "").expect("the folder is ours");
}

/// The main function of `worker_process mixed URL FOLDER MILLIS`.
///
/// # Panics
/// If a guarantee is broken.
pub async fn run_worker(url: &str, folder: &Path, ttl: Duration) {
    let client = latchwork::connect(url).await.expect("the engine accepts the connection");
    let [history, cell] = record_paths(folder);
    let client = Recorder::shared(&history).client(client);
    let workload = MixedWorkload::start(&client, ttl, &Arc::new(CellHistory::shared(&cell)));
    println!("started");
    while !folder.join(OVER).exists() {
        pause(30).await;
        assert!(workload.tasks.len() == workload.members.len(), "a task has ended");
    }
    workload.stop().await;
    client.client().close().await.expect("background work completes");
}
