//! The harness: a server, a proxy, and a record of all clients.

use std::ops::Deref;
use std::time::Duration;

use latchwork::LockName;
use latchwork::engine::{Claim, Engine, Grant, Verdict};
use latchwork::engines::Memcached;
use testkit::harness::FaultHarness;
pub(crate) use testkit::harness::{
    ANSWERED, LOCK, LONG, SOON, now, pause, take, wait_for_loss, wait_for_renewal,
};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
use testkit::servers::{MemcachedOptions, MemcachedServer};

/// One server with a fault harness around it.
pub(crate) struct MemcachedHarness {
    pub(crate) server: MemcachedServer,
    pub(crate) proxy: Proxy,
    harness: FaultHarness,
}

impl Deref for MemcachedHarness {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl MemcachedHarness {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A harness around a server with these arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let server = MemcachedServer::start(MemcachedOptions { arguments, ..MemcachedOptions::default() });
        let proxy = Proxy::to(server.address());
        Self { server, proxy, harness: FaultHarness::new() }
    }

    /// The URL through the proxy, with further options: `max-ttl=2s&quarantine=off`.
    pub(crate) fn url(&self, options: &str) -> String {
        format!("memcached://{}/?{options}", self.proxy.address())
    }

    /// The URL that bypasses the proxy.
    pub(crate) fn direct_url(&self, options: &str) -> String {
        format!("memcached://{}/?{options}", self.server.address())
    }

    /// A client behind the proxy.
    pub(crate) async fn client(&self) -> RecordedClient {
        self.connect(&self.url("")).await
    }

    /// A client that bypasses the proxy.
    pub(crate) async fn direct_client(&self) -> RecordedClient {
        self.connect(&self.direct_url("")).await
    }

    /// Waits until the proxy has dropped the reply that it was ordered to drop.
    pub(crate) async fn wait_for_a_lost_reply(&self) {
        let lost = self.proxy.until_lost_replies(1);
        tokio::time::timeout(SOON, lost).await.expect("the request was forwarded");
    }
}

/// An engine without a client around it.
pub(crate) async fn engine(url: &str) -> Memcached {
    Memcached::connect(&url.parse().expect("a valid URL")).await.expect("the server accepts the connection")
}

pub(crate) fn claim(lock: &str, ttl: Duration) -> Claim {
    Claim::new(LockName::new(lock).expect("a good name"), ttl)
}

pub(crate) async fn granted(engine: &Memcached, claim: &Claim) -> Grant {
    match engine.claim(claim).await.expect("an answer") {
        Verdict::Granted(grant) => grant,
        Verdict::Busy(busy) => panic!("{:?} is busy: {busy:?}", claim.name),
    }
}
