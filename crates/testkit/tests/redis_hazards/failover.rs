//! A replica takes over before it has received the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::Engine;
use latchwork::{Client, LockName, Loss, Promise};
use testkit::network::proxy::Proxy;
use testkit::servers::{RedisOptions, RedisServer};
use testkit::store::{Store, Written};

use super::claims::granted;
use super::harness::{LOCK, LONG, engine, take, until, url, with_both};
use super::naive::Naive;

/// A master, its replica, and the network between the two.
struct Pair {
    master: RedisServer,
    replica: Arc<RedisServer>,
    link: Proxy,
}

impl Pair {
    async fn new() -> Self {
        // Otherwise the first copy does not even start for five seconds.
        let config = vec![("repl-diskless-sync-delay".into(), "0".into())];
        let master = RedisServer::start(RedisOptions { config, ..RedisOptions::default() });
        let (replica, link) = (RedisServer::start(RedisOptions::default()), Proxy::to(master.address()));
        let port = link.address().port().to_string();
        assert!(replica.command(&["REPLICAOF", "127.0.0.1", &port]).is("OK"));
        let pair = Self { master, replica: Arc::new(replica), link };
        // The replica reports that the link is up before it has received any data.
        assert!(pair.master.command(&["SET", "ready", "yes"]).is("OK"));
        pair.until_replicated("ready").await;
        assert_eq!(pair.master.command(&["DEL", "ready"]).integer(), 1);
        until("the replica is empty", || pair.replica.command(&["DBSIZE"]).integer() == 0).await;
        pair
    }

    /// Blocks all traffic to the replica.
    fn cut_off_the_replica(&self) {
        self.link.black_hole(true);
    }

    /// Kills the master, and promotes the replica.
    fn fail_over(&self) {
        self.master.kill();
        assert!(self.replica.command(&["REPLICAOF", "NO", "ONE"]).is("OK"));
    }

    async fn until_replicated(&self, key: &str) {
        until("the replica has it", || self.replica.command(&["EXISTS", key]).integer() == 1).await;
    }
}

async fn client(server: &RedisServer) -> Client {
    latchwork::connect(&url(server.port(), "")).await.expect("the server accepts the connection")
}

#[tokio::test]
async fn naive_a_failover_makes_two_holders_with_the_same_token() {
    let pair = Pair::new().await;
    let mut first = Naive::at(pair.master.address());
    pair.cut_off_the_replica();
    assert!(first.set_nx_px(LOCK, "first", 60_000));
    let token = first.ask(&["INCR", "token"]).integer();
    pair.fail_over();
    let mut second = Naive::at(pair.replica.address());
    assert!(second.set_nx_px(LOCK, "second", 60_000), "beside the first, which continues");
    assert_eq!(second.ask(&["INCR", "token"]).integer(), token, "so a store cannot tell them apart");
}

/// The documented effect.
#[tokio::test]
async fn a_failover_makes_two_holders_and_a_store_that_checks_tokens_refuses_the_former() {
    let (pair, folder) = (Pair::new().await, tempfile::tempdir().expect("a temporary folder"));
    let mut store = Store::open(&folder.path().join("store"));
    let first = client(&pair.master).await;
    assert_eq!(first.guarantees().faults.failover, Promise::FencedOnly);
    pair.cut_off_the_replica();
    // Long enough for the failover of a machine that stalls meanwhile.
    let former = take(&first, Duration::from_secs(8)).await;
    let former_token = former.token().expect("redis has tokens");
    assert_eq!(store.write(former_token, "former"), Written::Accepted);
    pair.fail_over();
    assert_eq!(
        pair.replica.command(&["DBSIZE"]).integer(),
        0,
        "the replica has neither the lock nor its token"
    );

    let latter = take(&client(&pair.replica).await, LONG).await;
    assert!(former.is_certain() && latter.is_certain(), "exclusion is lost");
    let latter_token = latter.token().expect("redis has tokens");
    assert!(latter_token > former_token, "tokens still rise");
    assert_eq!(store.write(latter_token, "latter"), Written::Accepted);
    assert_eq!(store.write(former_token, "former"), Written::Refused { seen: latter_token.get() });
    assert_eq!(store.read().value, "latter");
    assert_eq!(former.lost().await, Loss::Unreachable, "the former holder is told");
    assert!(Clock::boottime().now() < former.lease_end(), "before its lease ends");
    latter.release().await.expect("the lock was held to the end");
}

#[tokio::test]
async fn naive_a_failover_between_setnx_and_expire_leaves_a_lock_for_ever() {
    let pair = Pair::new().await;
    let mut holder = Naive::at(pair.master.address());
    assert!(holder.setnx(LOCK, "holder"));
    pair.until_replicated(LOCK).await;
    pair.cut_off_the_replica();
    assert_eq!(holder.ask(&["EXPIRE", LOCK, "30"]).integer(), 1);
    pair.fail_over();
    assert_eq!(pair.replica.command(&["PTTL", LOCK]).integer(), -1);
}

/// Polls the replica as often as possible until told to stop; returns how often it saw a lock without an
/// expiry.
fn watch(replica: &Arc<RedisServer>, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    const ENDLESS: &str = "for _, key in ipairs(redis.call('KEYS', 'lock-*')) do \
                           if redis.call('PTTL', key) == -1 then return 1 end end return 0";
    let (replica, stop) = (replica.clone(), stop.clone());
    std::thread::spawn(move || {
        let (mut connection, mut endless) = (Naive::at(replica.address()), 0);
        while !stop.load(Ordering::Relaxed) {
            endless += connection.ask(&["EVAL", ENDLESS, "0"]).integer() as u64;
        }
        endless
    })
}

#[tokio::test]
async fn naive_a_replica_sees_locks_without_an_end() {
    let (pair, stop) = (Pair::new().await, Arc::default());
    let watching = watch(&pair.replica, &stop);
    let mut holder = Naive::at(pair.master.address());
    for number in 0..20 {
        let key = format!("lock-{number}");
        assert!(holder.setnx(&key, "holder"));
        super::harness::pause(5).await; // It is slow, but that is no reason to hold a lock for ever.
        assert_eq!(holder.ask(&["EXPIRE", &key, "30"]).integer(), 1);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(watching.join().expect("no panic") > 0);
}

/// The effects of a script reach a replica atomically. The failover comes in the middle of many scripts.
async fn no_lock_without_an_end_on_a_replica(options: &str) {
    let (pair, stop) = (Pair::new().await, Arc::default());
    let watching = watch(&pair.replica, &stop);
    let engine = engine(&url(pair.master.port(), options)).await;
    for number in 0..300 {
        let mut claim = super::claims::trying(LONG);
        claim.name = LockName::new(format!("lock-{number}")).expect("a good name");
        granted(&engine, &claim).await;
        if number % 2 == 0 {
            engine.release(&claim).await.expect("it answers");
        }
    }
    pair.cut_off_the_replica();
    pair.fail_over();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(watching.join().expect("no panic"), 0, "{options}");
    let keys = pair.replica.command(&["KEYS", "*"]);
    let ends = keys.array().iter().map(|key| pair.replica.command(&["PTTL", &key.text()]).integer());
    assert!(keys.array().len() > 50 && ends.min() > Some(0), "{options}: {} keys", keys.array().len());
}

#[tokio::test]
async fn a_replica_never_sees_a_lock_without_an_end() {
    with_both(no_lock_without_an_end_on_a_replica).await;
}
