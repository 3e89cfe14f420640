//! Several clients that contend for one lock and write to the store whenever they hold it.

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use latchwork::engine::Mode;
use latchwork::{Error, ErrorKind};
use tokio::task::JoinHandle;

use crate::harness::{FaultHarness, LOCK, LONG, now, pause};
use crate::history::{RecordedClient, RecordedLock};
use crate::store::{Store, Written};

/// A lease that can end within a test. There is time for a busy machine between the report of the loss and
/// the end.
pub const TTL: Duration = Duration::from_secs(3);
/// A lease that ends because no renewal is answered. The first renewal fails more than half a second before
/// the loss is reported. A machine that stalled for that long would turn the lease into one that was never
/// renewed, which is another loss.
pub const UNRENEWED: Duration = Duration::from_secs(4);
/// The stop margin of the holders.
pub const MARGIN: Duration = Duration::from_millis(1_200);

/// Running clients, each in a task of its own.
pub struct Contenders {
    progress: Arc<Progress>,
    members: Vec<JoinHandle<Tally>>,
}

#[derive(Default)]
struct Progress {
    stop: AtomicBool,
    holds: AtomicUsize,
}

/// The results of the contenders.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of holds.
    pub holds: u32,
    /// Holds that were lost before their release.
    pub lost: u32,
    /// The number of writes that the store refused although the holder was certain before and after.
    pub refused: u32,
    /// The errors of acquires and releases.
    pub errors: Vec<Error>,
}

impl Contenders {
    /// Makes these clients acquire [`LOCK`] in turns, for `hold` each.
    pub fn start(harness: &FaultHarness, clients: &[RecordedClient], hold: Duration) -> Self {
        Self::start_on(LOCK, &harness.store_path(), clients, hold)
    }

    /// Makes these clients acquire another lock, with the store that it protects.
    pub fn start_on(name: &str, store: &Path, clients: &[RecordedClient], hold: Duration) -> Self {
        let locks = clients.iter().map(|client| (client.lock(name), Some(store.to_owned())));
        Self::of(locks, hold)
    }

    /// Makes these clients acquire [`LOCK`], each in its own mode. Holders in a shared mode do not write,
    /// because their tokens do not tell the order of writes.
    pub fn start_mixed(harness: &FaultHarness, clients: &[(&RecordedClient, Mode)], hold: Duration) -> Self {
        let lock = |(client, mode): &(&RecordedClient, Mode)| {
            let is_alone = matches!(mode, Mode::Exclusive | Mode::Write);
            (client.shared_lock(LOCK, *mode), is_alone.then(|| harness.store_path()))
        };
        Self::of(clients.iter().map(lock), hold)
    }

    fn of(locks: impl Iterator<Item = (RecordedLock, Option<PathBuf>)>, hold: Duration) -> Self {
        let progress = Arc::<Progress>::default();
        let join = |(lock, store): (RecordedLock, Option<PathBuf>)| {
            let lock = lock.ttl(TTL).with(|lock| lock.stop_margin(MARGIN));
            tokio::spawn(work(lock, hold, store, progress.clone()))
        };
        Self { members: locks.map(join).collect(), progress }
    }

    /// Waits until the lock was held this many more times: however busy the machine is, there are holds
    /// between faults.
    ///
    /// # Panics
    /// If no contender gets the lock in time.
    pub async fn wait_for_holds(&self, holds: usize) {
        let (enough, end) = (self.progress.holds.load(Ordering::Relaxed) + holds, now().after(LONG));
        while self.progress.holds.load(Ordering::Relaxed) < enough {
            assert!(now() < end, "no contender gets the lock any more");
            pause(2).await;
        }
    }

    /// Stops the contenders after their current turn, and returns their results.
    ///
    /// # Panics
    /// If a contender does not stop in time.
    pub async fn stop(self) -> Tally {
        self.progress.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for member in self.members {
            let tally = tokio::time::timeout(LONG, member).await.expect("the contenders stop in time");
            all += tally.expect("no panic");
        }
        println!("{} holds, {} lost, {} refused, {:?}", all.holds, all.lost, all.refused, all.errors);
        all
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.holds += other.holds;
        self.lost += other.lost;
        self.refused += other.refused;
        self.errors.extend(other.errors);
    }
}

impl Tally {
    /// Whether there was no disturbance, except for releases whose answers were late or lost.
    pub fn is_undisturbed(&self) -> bool {
        self.lost == 0 && self.refused == 0
    }

    /// Whether there was no error except that the server was unreachable, or that a lock was lost before its
    /// release.
    pub fn only_unreachable_or_lost(&self) -> bool {
        self.errors.iter().all(|error| matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Lost))
    }

    /// Whether there was no error except that the server was unreachable.
    pub fn only_unreachable(&self) -> bool {
        self.errors.iter().all(|error| error.kind() == ErrorKind::Unreachable)
    }
}

async fn work(lock: RecordedLock, hold: Duration, store: Option<PathBuf>, progress: Arc<Progress>) -> Tally {
    let (mut tally, mut store) = (Tally::default(), store.map(|path| Store::open(&path)));
    while !progress.stop.load(Ordering::Relaxed) {
        let holds = tally.holds;
        if let Err(error) = turn(&lock, hold, store.as_mut(), &mut tally).await {
            tally.errors.push(error);
            pause(10).await;
        }
        progress.holds.fetch_add((tally.holds - holds) as usize, Ordering::Relaxed);
    }
    tally
}

async fn turn(
    lock: &RecordedLock,
    hold: Duration,
    store: Option<&mut Store>,
    tally: &mut Tally,
) -> Result<(), Error> {
    let guard = lock.acquire().await?;
    tally.holds += 1;
    if let Some(store) = store {
        let was_certain = guard.is_certain();
        let written = store.write(guard.token()?, "crowd");
        tally.refused += u32::from(was_certain && guard.is_certain() && written != Written::Accepted);
    }
    tokio::select! {
        _ = guard.lost() => {
            tally.lost += 1;
            drop(guard);
            Ok(())
        }
        () = tokio::time::sleep(hold) => guard.release().await,
    }
}
