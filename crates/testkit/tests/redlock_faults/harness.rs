//! The harness: five masters, a proxy in front of each, a store that checks tokens, and a record.

use std::ops::Deref;
use std::time::Duration;

use testkit::harness::{FaultHarness, Judged};
pub(crate) use testkit::harness::{LOCK, LONG, SOON, now, pause, take, wait_for_loss, wait_for_renewal};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
use testkit::servers::{RedisOptions, RedisServer};

pub(crate) const MASTERS: usize = 5;

/// All pairs of masters.
pub(crate) fn pairs() -> impl Iterator<Item = [usize; 2]> {
    (0..MASTERS).flat_map(|one| (one + 1..MASTERS).map(move |other| [one, other]))
}

/// Masters with a fault harness around them.
pub(crate) struct RedlockHarness {
    harness: FaultHarness,
    /// In front of each master.
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) masters: Vec<RedisServer>,
}

impl Deref for RedlockHarness {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl RedlockHarness {
    pub(crate) fn new() -> Self {
        Self::with(|_| RedisOptions::default())
    }

    pub(crate) fn with<'a>(options: impl Fn(usize) -> RedisOptions<'a>) -> Self {
        let masters: Vec<_> = (0..MASTERS).map(|at| RedisServer::start(options(at))).collect();
        let proxies = masters.iter().map(|master| Proxy::to(master.address())).collect();
        Self { harness: FaultHarness::new(), proxies, masters }
    }

    /// The URL of the masters behind the proxies, with options.
    pub(crate) fn url(&self, options: &str) -> String {
        let places: Vec<_> = self.proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        format!("redlock://{}?{options}", places.join(","))
    }

    pub(crate) async fn client(&self, options: &str) -> RecordedClient {
        self.connect(&self.url(options)).await
    }

    /// The URL of the first masters without proxies, for other processes.
    pub(crate) fn direct_url(&self, masters: usize, options: &str) -> String {
        let places: Vec<_> =
            self.masters[..masters].iter().map(|master| master.address().to_string()).collect();
        format!("redlock://{}?{options}", places.join(","))
    }

    /// The number of masters that have the lock's key.
    pub(crate) fn keys(&self, lock: &str) -> usize {
        let has = |master: &&RedisServer| master.command(&["EXISTS", lock]).integer() == 1;
        self.masters.iter().filter(has).count()
    }

    /// Waits until this many masters have it.
    pub(crate) async fn until_keys(&self, lock: &str, count: usize, within: Duration) {
        let end = now().after(within);
        while self.keys(lock) != count {
            assert!(now() < end, "{} masters have the key, not {count}", self.keys(lock));
            pause(10).await;
        }
    }

    /// Judges the record, and checks that the masters have no claim left.
    pub(crate) async fn judge(&self, clients: &[RecordedClient]) -> Judged {
        let judged = self.harness.judge(clients, 2 * SOON).await;
        self.until_keys(LOCK, 0, SOON).await;
        judged
    }
}
