//! The harness of fault tests: a recorder of all clients, a store that checks tokens, and a final judgement.

use std::path::PathBuf;
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::engine::{Filter, LockState};
use latchwork::{Client, ErrorKind, LockName, Loss};
use tempfile::TempDir;

use crate::history::checks::{Expectations, Stats, check_all};
use crate::history::{Fault, RecordedClient, RecordedGuard, RecordedLock, Recorder};
use crate::store::Store;

/// The lock that most tests use.
pub const LOCK: &str = "orders/42";
/// A lease that does not expire during a test. A test that waits for its end has found a stuck lock.
pub const LONG: Duration = Duration::from_secs(30);
/// The limit within which a request is answered, even on a machine that stalls for a second or more.
pub const ANSWERED: Duration = Duration::from_secs(2);
/// The limit for anything that must happen soon, on a machine that is busy with other tests.
pub const SOON: Duration = Duration::from_secs(5);

/// The recorder and the store around the servers of one test.
pub struct FaultHarness {
    /// The record of all clients.
    pub recorder: Recorder,
    folder: TempDir,
}

impl FaultHarness {
    /// A harness with an empty record and an empty store.
    ///
    /// # Panics
    /// If no temporary folder can be created.
    #[allow(clippy::new_without_default, reason = "it starts a recording, which a default value would hide")]
    pub fn new() -> Self {
        let recorder = Recorder::in_memory(Clock::boottime());
        Self { recorder, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Connects a recorded client.
    ///
    /// # Panics
    /// If the connection fails.
    pub async fn connect(&self, url: &str) -> RecordedClient {
        self.recorder.client(connect(url).await)
    }

    /// The path of the store; every holder opens the store for itself.
    pub fn store_path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The store.
    pub fn store(&self) -> Store {
        Store::open(&self.store_path())
    }

    /// Injects an instantaneous fault and records it.
    pub fn inject<T>(&self, fault: Fault, act: impl FnOnce() -> T) -> T {
        self.recorder.fault_began(fault);
        let done = act();
        self.recorder.fault_ended(fault);
        done
    }

    /// The holders and waiters of [`LOCK`].
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn state(&self, client: &RecordedClient) -> Option<LockState> {
        let name = LockName::new(LOCK).expect("a good name");
        client.client().inspect(&Filter::Name(name)).await.expect("the server answers").pop()
    }

    /// Waits until [`LOCK`] has this many waiters.
    ///
    /// # Panics
    /// If their number does not appear in time.
    pub async fn wait_for_waiters(&self, client: &RecordedClient, count: usize) {
        let end = now().after(SOON);
        while self.state(client).await.map_or(0, |lock| lock.waiters.len()) != count {
            assert!(now() < end, "{count} waiters never appeared");
            pause(2).await;
        }
    }

    /// Closes the clients, and checks the record against the guarantees of the first client's engine.
    ///
    /// # Panics
    /// If a guarantee was broken. The message shows the events around it.
    pub async fn judge(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        for client in clients {
            client.client().close().await.expect("background work completes");
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

/// A record that kept every guarantee.
pub struct Judged(Vec<Stats>);

impl Judged {
    fn of(&self, check: &str) -> Stats {
        *self.0.iter().find(|stats| stats.check == check).expect("the check was run")
    }

    /// The number of holds that were judged for exclusion. Holds under a fault that the engine excuses do not
    /// count.
    pub fn exclusive(&self) -> usize {
        self.of("exclusion").judged
    }

    /// The number of holds that were excused from exclusion.
    pub fn excused(&self) -> usize {
        self.of("exclusion").excused
    }
}

/// Connects a client that is not recorded.
///
/// # Panics
/// If the connection fails.
pub async fn connect(url: &str) -> Client {
    latchwork::connect(url).await.expect("the server accepts the connection")
}

/// The clock of leases.
pub fn clock() -> Clock {
    Clock::boottime()
}

/// The current time on the clock of leases.
pub fn now() -> Moment {
    clock().now()
}

/// Sleeps for this many milliseconds.
pub async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Acquires a lock that is free or becomes free soon.
///
/// # Panics
/// If it does not become free in time.
pub async fn take(lock: &RecordedLock) -> RecordedGuard {
    lock.clone().wait(SOON).acquire().await.expect("the lock becomes free soon")
}

/// Waits until the holder learns that the lock was lost, and returns the reason.
///
/// # Panics
/// If the holder does not learn it in time.
pub async fn wait_for_loss(guard: &RecordedGuard) -> Loss {
    tokio::time::timeout(SOON, guard.lost()).await.expect("a holder that lost its lock is told")
}

/// Waits for the next renewal of the lease.
///
/// # Panics
/// If the lease is not renewed.
pub async fn wait_for_renewal(guard: &RecordedGuard) {
    let (before, end) = (guard.lease_end(), now().after(LONG));
    while guard.lease_end() == before {
        assert!(now() < end, "the lease is not renewed");
        pause(2).await;
    }
}

/// Inspects [`LOCK`] while the connection used so far no longer answers. The first attempt times out; the
/// second one succeeds on a new connection and finds one holder.
///
/// # Panics
/// If the first attempt is answered, or the second one is not.
pub async fn inspect_times_out_and_then_succeeds(client: &Client) {
    let this = Filter::Name(LockName::new(LOCK).expect("a good name"));
    let looked = tokio::time::timeout(Duration::from_secs(1), client.inspect(&this)).await;
    assert!(looked.is_err(), "no server answers");
    let looked = tokio::time::timeout(SOON, client.inspect(&this)).await;
    let seen = looked.expect("on a new connection").expect("it answers");
    assert_eq!(seen[0].holders.len(), 1);
}
