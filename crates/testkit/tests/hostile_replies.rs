//! Hostile servers, for every engine: the client must fail in time with a clear error, use little memory, and
//! work again afterwards.

use std::net::SocketAddr;
use std::time::Duration;

use latchwork::clock::Clock;
use testkit::memory_probe::MemoryProbe;
use testkit::servers::{
    EtcdOptions, EtcdServer, Hostile, Hostility, MariadbOptions, MariadbServer, MemcachedOptions,
    MemcachedServer, PostgresOptions, PostgresServer, Protocol, RedisOptions, RedisServer, ZooKeeperOptions,
    ZooKeeperServer,
};

/// The wait limit in milliseconds. A request may take no longer.
const WAIT: u64 = 1_000;
/// An attempt may wait one second longer, for its withdrawal. The rest is for a busy machine.
const USED_WITHIN: Duration = Duration::from_secs(5);
/// Connecting takes at most ten seconds, as any request. The rest is for a busy machine.
const CONNECTED_WITHIN: Duration = Duration::from_secs(14);
/// Time limit for steps that succeed, on a busy machine.
const SOON: Duration = Duration::from_secs(20);
/// The allocation limit of a probe, and its limit for resident memory: several times the longest reply,
/// because a buffer grows by copying.
const MEGABYTES: u64 = 512;
const PEAK: u64 = 256 * 1_024;

/// Runs all attacks at once, each with a server and a process of its own.
async fn survives(protocol: Protocol, back: &[SocketAddr], url: impl Fn(&[SocketAddr]) -> String) {
    let mut probes = Vec::new();
    for hostility in Hostility::ALL.into_iter().filter(|hostility| hostility.is_known_to(protocol)) {
        let hostiles: Vec<_> = back.iter().map(|back| Hostile::before(*back, protocol)).collect();
        let addresses: Vec<_> = hostiles.iter().map(Hostile::address).collect();
        probes
            .push((hostility, tokio::spawn(survives_one((protocol, hostility), hostiles, url(&addresses)))));
    }
    let mut harmed = Vec::new();
    for (hostility, probe) in probes {
        if probe.await.is_err() {
            harmed.push(hostility);
        }
    }
    assert!(harmed.is_empty(), "{protocol:?}: {harmed:?}");
}

async fn survives_one((protocol, hostility): (Protocol, Hostility), hostiles: Vec<Hostile>, url: String) {
    let attack = |on: bool| hostiles.iter().for_each(|hostile| hostile.attack(on.then_some(hostility)));
    let attacked = || hostiles.iter().map(Hostile::attacked).sum::<usize>();
    let mut probe = MemoryProbe::with_little_memory(&url, MEGABYTES);
    let clock = Clock::boottime();

    attack(true);
    let began = clock.now();
    let refused = probe.ask("connect", CONNECTED_WITHIN).await;
    let connecting = clock.now().since(began);
    // The client may tolerate an attack that only disturbs. It must not accept any other attacker as a
    // server.
    let only_disturbs =
        hostility == Hostility::Unasked || protocol == Protocol::ZooKeeper && hostility == Hostility::Endless;
    assert!(is_clear(&refused) || refused == "ok" && only_disturbs, "{hostility:?}: {refused}");
    assert!(attacked() > 0, "{hostility:?}: no client connected");
    attack(false);
    assert_eq!(probe.ask("connect", SOON).await, "ok", "{hostility:?}: as soon as the real server answers");
    assert_eq!(probe.ask("use 10000", SOON).await, "ok", "{hostility:?}");

    let before = attacked();
    attack(true);
    let began = clock.now();
    let failed = probe.ask(&format!("use {WAIT}"), USED_WITHIN).await;
    let using = clock.now().since(began);
    assert!(is_clear(&failed), "{hostility:?}: {failed}");
    assert!(attacked() > before, "{hostility:?}: no request was sent");
    attack(false);
    assert_eq!(probe.ask("use 15000", SOON).await, "ok", "{hostility:?}: the same client, later");

    let peak: u64 = probe.ask("peak", SOON).await.parse().expect("a number");
    println!("{hostility:?}: {connecting:?} {refused:?}; {using:?} {failed:?}; {} MB", peak / 1_024);
    assert!(peak < PEAK, "{hostility:?}: {peak} kB");
    assert!(!probe.errors().contains("panicked"), "{hostility:?}: {}", probe.errors());
}

/// A short error that names the place and the cause, or says that the wait limit was reached.
fn is_clear(answer: &str) -> bool {
    let says_where = answer.contains("127.0.0.1") || answer.contains("redlock: 0 of 3 masters");
    let kinds = ["Unreachable", "Corrupt", "Unsupported", "Denied"];
    let is_known = kinds.iter().any(|kind| answer.starts_with(kind)) && says_where;
    (is_known || answer.starts_with("TimedOut")) && answer.len() < 1_500
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_redlock_survive_hostile_servers() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start(RedisOptions::default())).collect();
    let back: Vec<_> = servers.iter().map(RedisServer::address).collect();
    let redis = survives(Protocol::Redis, &back[..1], |at| format!("redis://{}", at[0]));
    let redlock = survives(Protocol::Redis, &back, |at| format!("redlock://{}?quarantine=off", list(at)));
    tokio::join!(redis, redlock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memcached_survives_a_hostile_server() {
    let server = MemcachedServer::start(MemcachedOptions::default());
    let url = |at: &[SocketAddr]| format!("memcached://{}?quarantine=off", at[0]);
    survives(Protocol::Memcached, &[server.address()], url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_survives_a_hostile_server() {
    let server = EtcdServer::start(EtcdOptions::default());
    survives(Protocol::Etcd, &[server.address()], |at| format!("etcd://{}", at[0])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_survives_a_hostile_server() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::default());
    let back = server.members()[0].address();
    survives(Protocol::ZooKeeper, &[back], |at| format!("zookeeper://{}?session-ttl=3s", at[0])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_survives_a_hostile_server() {
    let server = MariadbServer::start(MariadbOptions::default());
    let back = [server.address()];
    let rows = survives(Protocol::Mysql, &back, |at| server.url(at[0], ""));
    // The client trusts a connection for as long as the server keeps its locks.
    let sessions = survives(Protocol::Mysql, &back, |at| server.url(at[0], "scheme=session&session-ttl=3s"));
    tokio::join!(rows, sessions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_survives_a_hostile_server() {
    let server = PostgresServer::start(PostgresOptions::default());
    let back = [server.address()];
    let rows = survives(Protocol::Postgres, &back, |at| server.url(at[0], ""));
    let sessions =
        survives(Protocol::Postgres, &back, |at| server.url(at[0], "scheme=session&session-ttl=3s"));
    tokio::join!(rows, sessions);
}
