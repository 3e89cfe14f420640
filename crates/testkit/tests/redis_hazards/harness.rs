//! The harness: one Redis server, our clients, and helpers.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engines::Redis;
use latchwork::{Client, Guard};
use testkit::servers::{RedisOptions, RedisServer, Reply};
use testkit::worker_process::WorkerProcess;

use super::naive::Naive;

/// The lock that most tests use. Its key has the same name.
pub(crate) const LOCK: &str = "orders/42";
/// A lease that does not expire during a test.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// The limit for anything that must happen soon, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// Both schemes that take the key that other clients share.
pub(crate) const SHARED: [&str; 2] = ["scheme=set", "scheme=setnx"];

/// One server.
pub(crate) struct HazardHarness {
    pub(crate) server: RedisServer,
}

impl HazardHarness {
    pub(crate) fn new() -> Self {
        Self { server: RedisServer::start(RedisOptions::default()) }
    }

    /// Its URL with these options, which may be empty.
    pub(crate) fn url(&self, options: &str) -> String {
        url(self.server.port(), options)
    }

    /// A client of ours, with a session of its own.
    pub(crate) async fn client(&self, options: &str) -> Client {
        latchwork::connect(&self.url(options)).await.expect("the server accepts the connection")
    }

    /// Our engine, with a session of its own and no core around it: nothing is renewed, retried or released
    /// by itself.
    pub(crate) async fn engine(&self, options: &str) -> Redis {
        engine(&self.url(options)).await
    }

    /// Another program's client.
    pub(crate) fn naive(&self) -> Naive {
        Naive::at(self.server.address())
    }

    /// The value of a key, if it is a string.
    pub(crate) fn value(&self, key: &str) -> Option<String> {
        match self.server.command(&["GET", key]) {
            Reply::Nil => None,
            value => Some(value.text()),
        }
    }

    /// Milliseconds until a key expires; -1 if it never does, -2 if it does not exist.
    pub(crate) fn pttl(&self, key: &str) -> i64 {
        self.server.command(&["PTTL", key]).integer()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.server.command(&["KEYS", "*"]).array().iter().map(Reply::text).collect()
    }

    /// The number of our claims in the queue of [`LOCK`].
    pub(crate) fn queued(&self) -> i64 {
        self.server.command(&["ZCARD", &format!("{{{LOCK}}}:latchwork1:q")]).integer()
    }

    /// Waits until the queue has this length.
    pub(crate) async fn until_queued(&self, count: i64) {
        until("the queue has its length", || self.queued() == count).await;
    }
}

pub(crate) fn url(port: u16, options: &str) -> String {
    let separator = if options.is_empty() { "" } else { "?" };
    format!("redis://127.0.0.1:{port}{separator}{options}")
}

pub(crate) async fn engine(url: &str) -> Redis {
    Redis::connect(&url.parse().expect("a valid URL")).await.expect("the server accepts the connection")
}

/// Acquires [`LOCK`], which is free or becomes free soon.
pub(crate) async fn take(client: &Client, ttl: Duration) -> Guard {
    client.lock(LOCK).ttl(ttl).wait(SOON).acquire().await.expect("the lock becomes free")
}

/// Acquires [`LOCK`] in the background.
pub(crate) fn take_in_background(client: &Client, ttl: Duration) -> tokio::task::JoinHandle<Guard> {
    let lock = client.lock(LOCK).ttl(ttl);
    tokio::spawn(async move { lock.acquire().await.expect("the lock becomes free") })
}

/// A process that holds [`LOCK`] until it is killed.
pub(crate) async fn holding_process(url: &str, ttl: Duration) -> WorkerProcess {
    let mut holder = WorkerProcess::start(&["hold", url, LOCK, &ttl.as_millis().to_string()]);
    for word in ["started", "held"] {
        let line = tokio::time::timeout(SOON, holder.line()).await.expect("the process acquires the lock");
        assert!(line.starts_with(word), "{line}");
    }
    holder
}

/// Waits for background work that ends soon.
pub(crate) async fn soon<T>(work: tokio::task::JoinHandle<T>) -> T {
    tokio::time::timeout(SOON, work).await.expect("the task ends soon").expect("no panic")
}

/// Waits until a condition holds, which must be soon.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    until_some(what, async || so().then_some(())).await;
}

/// Polls until there is an answer, which must be soon.
pub(crate) async fn until_some<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let (clock, patience) = (Clock::boottime(), Clock::boottime().now().after(SOON));
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(clock.now() < patience, "{what}: not yet");
        pause(2).await;
    }
}

/// Runs the test with both schemes that take the key that other clients share, at once.
pub(crate) async fn with_both(test: impl AsyncFn(&'static str)) {
    tokio::join!(test(SHARED[0]), test(SHARED[1]));
}

pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
