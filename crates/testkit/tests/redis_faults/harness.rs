//! A server, a network that can be bad, a store that checks tokens, and a record of everything.

use std::ops::Deref;
use std::time::Duration;

pub(crate) use testkit::harness::{ANSWERED, LOCK, LONG, SOON, connect, now, pause, renewed, take, told};
use testkit::harness::{FaultHarness, Judged};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
use testkit::servers::{RedisOptions, RedisServer, Reply};

/// In every key beside the lock's own.
const SIDE: &str = ":latchwork1:";

/// One server with everything around it.
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
    /// Around a server that keeps nothing on disk.
    pub(crate) fn new() -> Self {
        Self::with(RedisOptions::default())
    }

    pub(crate) fn with(options: RedisOptions<'_>) -> Self {
        let server = RedisServer::start(options);
        let proxy = Proxy::to(server.address());
        Self { server, proxy, harness: FaultHarness::new() }
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

    pub(crate) async fn clients(&self, count: usize) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
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
        let judged = self.harness.judge(clients, answer_within).await;
        self.only_fences_are_left();
        judged
    }

    /// No key is left but the newest token of each lock.
    fn only_fences_are_left(&self) {
        let Reply::Array(keys) = self.server.command(&["KEYS", "*"]) else { panic!("a list of keys") };
        let left = keys.iter().map(Reply::text).filter(|key| !key.ends_with(&format!("{SIDE}f")));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new(), "left behind");
    }
}
