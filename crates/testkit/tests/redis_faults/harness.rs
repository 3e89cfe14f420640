//! The harness: a server, a proxy, a store that checks tokens, and a record of all clients.

use std::ops::Deref;
use std::time::Duration;

pub(crate) use testkit::harness::{
    ANSWERED, LOCK, LONG, SOON, connect, now, pause, take, wait_for_loss, wait_for_renewal,
};
use testkit::harness::{FaultHarness, Judged};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
use testkit::servers::{RedisOptions, RedisServer, Reply};

/// A part of every key beside the lock's own.
const SIDE: &str = ":latchwork1:";

/// One server with a fault harness around it.
pub(crate) struct RedisHarness {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    harness: FaultHarness,
}

impl Deref for RedisHarness {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl RedisHarness {
    /// A harness around a server without persistence.
    pub(crate) fn new() -> Self {
        Self::with(RedisOptions::default())
    }

    pub(crate) fn with(options: RedisOptions<'_>) -> Self {
        let server = RedisServer::start(options);
        let proxy = Proxy::to(server.address());
        Self { server, proxy, harness: FaultHarness::new() }
    }

    /// The URL through the proxy, with further options: `max-ttl=2s&quarantine=off`.
    pub(crate) fn url(&self, options: &str) -> String {
        format!("redis://{}/?{options}", self.proxy.address())
    }

    /// The URL that bypasses the proxy.
    pub(crate) fn direct_url(&self, options: &str) -> String {
        format!("redis://{}/?{options}", self.server.address())
    }

    /// A client behind the proxy.
    pub(crate) async fn client(&self) -> RecordedClient {
        self.connect(&self.url("")).await
    }

    /// A client that bypasses the proxy.
    pub(crate) async fn direct_client(&self) -> RecordedClient {
        self.connect(&self.direct_url("")).await
    }

    pub(crate) async fn clients(&self, count: usize) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
    }

    /// The newest token of [`LOCK`] on the server.
    pub(crate) fn newest_token(&self) -> u64 {
        let fence = self.server.command(&["GET", &format!("{{{LOCK}}}{SIDE}f")]).text();
        fence[..16].parse().expect("a fence begins with its token")
    }

    /// Milliseconds until [`LOCK`] expires by itself; negative if it is free.
    pub(crate) fn free_in(&self) -> i64 {
        self.server.command(&["PTTL", LOCK]).integer()
    }

    /// Waits until the proxy has dropped the reply that it was ordered to drop.
    pub(crate) async fn wait_for_a_lost_reply(&self) {
        let lost = self.proxy.until_lost_replies(1);
        tokio::time::timeout(SOON, lost).await.expect("the request was forwarded");
    }

    /// Waits until the server knows of this many subscribed clients: it learns of a death when it reads from
    /// the socket.
    pub(crate) async fn until_listening(&self, count: usize) {
        let end = now().after(SOON);
        while self.server.command(&["PUBSUB", "CHANNELS", "latchwork:*"]).array().len() != count {
            assert!(now() < end, "not {count} of them are subscribed");
            pause(2).await;
        }
    }

    /// Closes the clients, and checks the record against the guarantees of the first client's engine.
    pub(crate) async fn judge(&self, clients: &[RecordedClient], answer_within: Duration) -> Judged {
        let judged = self.harness.judge(clients, answer_within).await;
        self.only_fences_are_left();
        judged
    }

    /// Checks that no key is left but the newest token of each lock.
    fn only_fences_are_left(&self) {
        let Reply::Array(keys) = self.server.command(&["KEYS", "*"]) else { panic!("a list of keys") };
        let left = keys.iter().map(Reply::text).filter(|key| !key.ends_with(&format!("{SIDE}f")));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new(), "left behind");
    }
}
