//! A server, a network that can be bad, a store that checks tokens, and a record of everything.

use std::path::PathBuf;
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::engine::{Filter, LockState};
use latchwork::{Client, LockName, Loss};
use tempfile::TempDir;
use testkit::history::checks::{Expectations, Stats, check_all};
use testkit::history::{Fault, RecordedClient, RecordedGuard, RecordedLock, Recorder};
use testkit::proxy::Proxy;
use testkit::servers::{RedisOptions, RedisServer, Reply};
use testkit::store::Store;

/// The one lock of most tests.
pub(crate) const LOCK: &str = "orders/42";
/// A lease that does not end by itself during a test: whoever waits for that has found a stuck lock.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// For what must happen soon, on a machine that is busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(5);
/// In every key beside the lock's own.
const SIDE: &str = ":latchwork1:";

/// One server with everything around it.
pub(crate) struct Scene {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    pub(crate) recorder: Recorder,
    folder: TempDir,
}

impl Scene {
    /// Around a server that keeps nothing on disk.
    pub(crate) fn new() -> Self {
        Self::with(RedisOptions::default())
    }

    pub(crate) fn with(options: RedisOptions<'_>) -> Self {
        let server = RedisServer::start(options);
        let proxy = Proxy::to(server.address());
        let recorder = Recorder::in_memory(Clock::boottime());
        Self { server, proxy, recorder, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// The way through the proxy, with further options: `max-ttl=2s&quarantine=off`.
    pub(crate) fn url(&self, options: &str) -> String {
        format!("redis://{}/?{options}", self.proxy.address())
    }

    /// The way past the proxy.
    pub(crate) fn direct_url(&self, options: &str) -> String {
        format!("redis://{}/?{options}", self.server.address())
    }

    /// A client behind the proxy.
    pub(crate) async fn client(&self) -> RecordedClient {
        self.connect(&self.url("")).await
    }

    /// A client that the proxy cannot harm.
    pub(crate) async fn direct_client(&self) -> RecordedClient {
        self.connect(&self.direct_url("")).await
    }

    pub(crate) async fn connect(&self, url: &str) -> RecordedClient {
        self.recorder.client(connect(url).await)
    }

    pub(crate) async fn clients(&self, count: usize) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
    }

    /// Where the store is: every holder opens it for itself.
    pub(crate) fn store_path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.store_path())
    }

    /// What a fault that is over in no time did to the server, for the record.
    pub(crate) fn strike<T>(&self, fault: Fault, strike: impl FnOnce() -> T) -> T {
        self.recorder.fault_began(fault);
        let done = strike();
        self.recorder.fault_ended(fault);
        done
    }

    /// The newest token the server gave out for [`LOCK`].
    pub(crate) fn newest_token(&self) -> u64 {
        let fence = self.server.command(&["GET", &format!("{{{LOCK}}}{SIDE}f")]).text();
        fence[..16].parse().expect("a fence begins with its token")
    }

    /// Milliseconds until [`LOCK`] comes free by itself; negative if it is free.
    pub(crate) fn free_in(&self) -> i64 {
        self.server.command(&["PTTL", LOCK]).integer()
    }

    /// Who holds [`LOCK`] and who waits for it.
    pub(crate) async fn state(&self, client: &RecordedClient) -> Option<LockState> {
        let name = LockName::new(LOCK).expect("a good name");
        client.client().inspect(&Filter::Name(name)).await.expect("the server answers").pop()
    }

    /// Waits until this many wait for [`LOCK`].
    pub(crate) async fn until_waiting(&self, client: &RecordedClient, count: usize) {
        let end = now().after(SOON);
        while self.state(client).await.map_or(0, |lock| lock.waiters.len()) != count {
            assert!(now() < end, "{count} waiters never came");
            pause(2).await;
        }
    }

    /// Waits until the proxy has lost the reply that it was ordered to lose.
    pub(crate) async fn until_a_reply_is_lost(&self) {
        let lost = self.proxy.until_lost_replies(1);
        tokio::time::timeout(SOON, lost).await.expect("the request came by");
    }

    /// Waits until the server knows of this many clients that listen: it learns of a death when it reads of it.
    pub(crate) async fn until_listening(&self, count: usize) {
        let end = now().after(SOON);
        while self.server.command(&["PUBSUB", "CHANNELS", "latchwork:*"]).array().len() != count {
            assert!(now() < end, "not {count} of them listen");
            pause(2).await;
        }
    }

    /// Lets everything come to rest, and judges the record by what the first client's engine promises.
    pub(crate) async fn judge(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        for client in clients {
            client.client().close().await.expect("what was begun is done");
        }
        self.recorder.quiesced();
        let client = clients[0].client();
        let left = client.inspect(&Filter::Prefix(String::new())).await.expect("the server answers");
        let expected =
            Expectations { answer_within, idle_at_most: answer_within, queued_after: None, left: Some(left) };
        let stats = check_all(&self.recorder.history(), &client.guarantees(), &expected);
        let stats = stats.unwrap_or_else(|violation| panic!("{violation}"));
        stats.iter().for_each(|stats| println!("{stats}"));
        self.only_fences_are_left();
        Judged(stats)
    }

    /// No key is left but the newest token of each lock.
    fn only_fences_are_left(&self) {
        let Reply::Array(keys) = self.server.command(&["KEYS", "*"]) else { panic!("a list of keys") };
        let left = keys.iter().map(Reply::text).filter(|key| !key.ends_with(&format!("{SIDE}f")));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new(), "left behind");
    }
}

/// A record that kept every promise.
pub(crate) struct Judged(Vec<Stats>);

impl Judged {
    fn of(&self, check: &str) -> Stats {
        *self.0.iter().find(|stats| stats.check == check).expect("it was checked")
    }

    /// How many holds were judged for exclusion: those that a fault struck in a way the engine excuses do not count.
    pub(crate) fn exclusive(&self) -> usize {
        self.of("exclusion").judged
    }

    /// How many holds were excused from exclusion.
    pub(crate) fn excused(&self) -> usize {
        self.of("exclusion").excused
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    latchwork::connect(url).await.expect("the server is there")
}

pub(crate) fn now() -> Moment {
    Clock::boottime().now()
}

pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Takes a lock that is free, or will be soon.
pub(crate) async fn take(lock: &RecordedLock) -> RecordedGuard {
    lock.clone().wait(SOON).acquire().await.expect("it comes free soon")
}

/// Why the lock was lost, once its holder is told.
pub(crate) async fn told(guard: &RecordedGuard) -> Loss {
    tokio::time::timeout(SOON, guard.lost()).await.expect("a holder that lost its lock is told")
}

/// Waits until the lease was renewed once more.
pub(crate) async fn renewed(guard: &RecordedGuard) {
    let (before, end) = (guard.lease_end(), now().after(LONG));
    while guard.lease_end() == before {
        assert!(now() < end, "it is not renewed");
        pause(2).await;
    }
}
