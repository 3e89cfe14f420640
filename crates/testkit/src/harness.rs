//! Where faults are played: a record of everything, a store that checks tokens, and a judgement at the end.

use std::path::PathBuf;
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::engine::{Filter, LockState};
use latchwork::{Client, ErrorKind, LockName, Loss};
use tempfile::TempDir;

use crate::history::checks::{Expectations, Stats, check_all};
use crate::history::{Fault, RecordedClient, RecordedGuard, RecordedLock, Recorder};
use crate::store::Store;

/// The one lock of most tests.
pub const LOCK: &str = "orders/42";
/// A lease that does not end by itself during a test: whoever waits for that has found a stuck lock.
pub const LONG: Duration = Duration::from_secs(30);
/// A request is answered within this time, also on a machine that stands still for a second and more.
pub const ANSWERED: Duration = Duration::from_secs(2);
/// For what must happen soon, on a machine that is busy with other tests.
pub const SOON: Duration = Duration::from_secs(5);

/// What is around the servers of one test.
pub struct FaultHarness {
    /// The record of all clients.
    pub recorder: Recorder,
    folder: TempDir,
}

impl FaultHarness {
    /// An empty record and an empty store.
    ///
    /// # Panics
    /// If there is no room for a folder.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let recorder = Recorder::in_memory(Clock::boottime());
        Self { recorder, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A recorded client.
    ///
    /// # Panics
    /// If it cannot connect.
    pub async fn connect(&self, url: &str) -> RecordedClient {
        self.recorder.client(connect(url).await)
    }

    /// Where the store is: every holder opens it for itself.
    pub fn store_path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The store.
    pub fn store(&self) -> Store {
        Store::open(&self.store_path())
    }

    /// What a fault that is over in no time did to the server, for the record.
    pub fn strike<T>(&self, fault: Fault, strike: impl FnOnce() -> T) -> T {
        self.recorder.fault_began(fault);
        let done = strike();
        self.recorder.fault_ended(fault);
        done
    }

    /// Who holds [`LOCK`] and who waits for it.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn state(&self, client: &RecordedClient) -> Option<LockState> {
        let name = LockName::new(LOCK).expect("a good name");
        client.client().inspect(&Filter::Name(name)).await.expect("the server answers").pop()
    }

    /// Waits until this many wait for [`LOCK`].
    ///
    /// # Panics
    /// If they do not come.
    pub async fn until_waiting(&self, client: &RecordedClient, count: usize) {
        let end = now().after(SOON);
        while self.state(client).await.map_or(0, |lock| lock.waiters.len()) != count {
            assert!(now() < end, "{count} waiters never came");
            pause(2).await;
        }
    }

    /// Lets everything come to rest, and judges the record by what the first client's engine promises.
    ///
    /// # Panics
    /// If a promise was broken; with what happened around it.
    pub async fn judge(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        for client in clients {
            client.client().close().await.expect("what was begun is done");
        }
        self.recorder.quiesced();
        let client = clients[0].client();
        let history = self.recorder.history();
        let left = match client.inspect(&Filter::Prefix(String::new())).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let mut left = Vec::new();
                for (name, _) in history.locks() {
                    left.extend(
                        client.inspect(&Filter::Name(name.clone())).await.expect("the server answers"),
                    );
                }
                left
            }
            listed => listed.expect("the server answers"),
        };
        let expected =
            Expectations { answer_within, idle_at_most: answer_within, queued_after: None, left: Some(left) };
        let stats = check_all(&history, &client.guarantees(), &expected);
        let stats = stats.unwrap_or_else(|violation| panic!("{violation}"));
        stats.iter().for_each(|stats| println!("{stats}"));
        Judged(stats)
    }
}

/// A record that kept every promise.
pub struct Judged(Vec<Stats>);

impl Judged {
    fn of(&self, check: &str) -> Stats {
        *self.0.iter().find(|stats| stats.check == check).expect("it was checked")
    }

    /// How many holds were judged for exclusion: those that a fault struck in a way the engine excuses do not count.
    pub fn exclusive(&self) -> usize {
        self.of("exclusion").judged
    }

    /// How many holds were excused from exclusion.
    pub fn excused(&self) -> usize {
        self.of("exclusion").excused
    }
}

/// A client that nobody records.
///
/// # Panics
/// If it cannot connect.
pub async fn connect(url: &str) -> Client {
    latchwork::connect(url).await.expect("the server is there")
}

/// The clock of leases.
pub fn clock() -> Clock {
    Clock::boottime()
}

/// On the clock of leases.
pub fn now() -> Moment {
    clock().now()
}

/// Lets time pass.
pub async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Takes a lock that is free, or will be soon.
///
/// # Panics
/// If it does not come free.
pub async fn take(lock: &RecordedLock) -> RecordedGuard {
    lock.clone().wait(SOON).acquire().await.expect("it comes free soon")
}

/// Why the lock was lost, once its holder is told.
///
/// # Panics
/// If it is not told soon.
pub async fn told(guard: &RecordedGuard) -> Loss {
    tokio::time::timeout(SOON, guard.lost()).await.expect("a holder that lost its lock is told")
}

/// Waits until the lease was renewed once more.
///
/// # Panics
/// If it is not.
pub async fn renewed(guard: &RecordedGuard) {
    let (before, end) = (guard.lease_end(), now().after(LONG));
    while guard.lease_end() == before {
        assert!(now() < end, "it is not renewed");
        pause(2).await;
    }
}

/// Looks at [`LOCK`] while the connection that was used so far answers nothing any more: in vain, and then by another, where one
/// holds it.
///
/// # Panics
/// If it is answered at once, or not soon.
pub async fn looks_in_vain_and_then_not(client: &Client) {
    let this = Filter::Name(LockName::new(LOCK).expect("a good name"));
    let looked = tokio::time::timeout(Duration::from_secs(1), client.inspect(&this)).await;
    assert!(looked.is_err(), "nobody answers");
    let looked = tokio::time::timeout(SOON, client.inspect(&this)).await;
    let seen = looked.expect("on a new connection").expect("it answers");
    assert_eq!(seen[0].holders.len(), 1);
}
