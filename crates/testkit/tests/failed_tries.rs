//! A failed try leaves nothing behind in the client, on any engine and for any reason.
//!
//! The test counts the bytes that a process has allocated and not freed, so a few thousand tries show a leak
//! of less than a byte each. `TRIES=100000 cargo test -p testkit --test failed_tries` makes more tries.

use std::net::SocketAddr;
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, Guard};
use testkit::memory_probe::MemoryProbe;
use testkit::servers::{
    EtcdOptions, EtcdServer, MariadbOptions, MariadbServer, MemcachedOptions, MemcachedServer,
    PostgresOptions, PostgresServer, RedisOptions, RedisServer, ZooKeeperOptions, ZooKeeperServer,
};

/// The number of measured tries, unless the environment sets another.
const TRIES: u64 = 1_500;
/// Time limit for a round of tries on a busy machine, and for each try: some open a connection.
const PATIENCE: Duration = Duration::from_secs(600);
const PATIENCE_EACH: Duration = Duration::from_millis(50);

/// The process's answer for a lock that is held by another client.
const HELD: &str = "held by another";

fn tries() -> u64 {
    std::env::var("TRIES").map_or(TRIES, |tries| tries.parse().expect("a number"))
}

/// A connected client in a process of its own.
async fn probe(url: &str) -> MemoryProbe {
    let mut probe = MemoryProbe::counted(url);
    assert_eq!(probe.ask("connect", PATIENCE).await, "ok", "{url}");
    probe
}

/// Makes tries fail, and counts the bytes that they leave behind.
async fn leaves_nothing(what: &str, probe: &mut MemoryProbe, why: &str) {
    // The first tries fill the caches and buffers before the count starts.
    let mut done = tries() / 3;
    fails(what, probe, done, why).await;
    // A buffer may grow late, but only once. A leak grows more in the second round, which is so long that no
    // table can have room for all of it.
    for count in [tries(), 4 * tries()] {
        let (before, began) = (at_rest(probe).await, Clock::boottime().now());
        fails(what, probe, count, why).await;
        let took = Clock::boottime().now().since(began);
        let left = at_rest(probe).await - before;
        println!("{what}: {left} bytes are left of {count} tries, after {done}, in {took:?}");
        if left < count as i64 {
            return;
        }
        done += count;
    }
    panic!("{what}: each try leaves something behind");
}

async fn fails(what: &str, probe: &mut MemoryProbe, count: u64, why: &str) {
    // If the server was late, a try may have got its lock. That lock cannot be tried until it is released, so
    // there are other names.
    let (names, least) = if why == HELD { (4, 0) } else { (64, count / 2) };
    let limit = PATIENCE + PATIENCE_EACH * u32::try_from(count).expect("fewer");
    let answer = probe.ask(&format!("tries {count} {names} failing"), limit).await;
    let mut words = answer.splitn(3, ' ');
    let [failed, errors] = [(); 2].map(|()| words.next().and_then(|word| word.parse::<u64>().ok()));
    assert!(failed == Some(count) && errors >= Some(least), "{what}: {answer}");
    // A server of a busy machine may be late for a few of many tries: the last error is then not why the
    // others failed.
    let is_late = why == HELD && errors < Some(1 + count / 1_000);
    assert!(is_late || words.next().is_some_and(|last| last.contains(why)), "{what}: {answer}");
}

/// Makes the first tries after a server was lost. They may have reached it: their locks are released in the
/// background, and cannot be tried meanwhile.
async fn notices(probe: &mut MemoryProbe) {
    probe.ask("tries 16 16 lost", PATIENCE).await;
}

/// The allocated bytes of the process when its background work is done.
async fn at_rest(probe: &MemoryProbe) -> i64 {
    let mut least = i64::MAX;
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        least = least.min(probe.living_bytes());
    }
    least
}

/// Holds the locks that the processes try to acquire.
async fn hold(url: &str) -> (Client, Vec<Guard>) {
    let client = latchwork::connect(url).await.expect("the server accepts the connection");
    let mut guards = Vec::new();
    for at in 0..4 {
        guards.push(client.lock(format!("failing/{at}")).acquire().await.expect("the locks are free"));
    }
    (client, guards)
}

/// Tries that find their lock held, then tries on a server that is down.
async fn busy_and_down(what: &str, url: &str, kill: impl FnOnce()) {
    let (held, mut probe) = (hold(url).await, probe(url).await);
    leaves_nothing(&format!("{what}, busy"), &mut probe, HELD).await;
    kill();
    notices(&mut probe).await;
    leaves_nothing(&format!("{what}, down"), &mut probe, "Unreachable").await;
    // The locks are gone with the server.
    drop(held);
}

fn list(addresses: impl Iterator<Item = SocketAddr>) -> String {
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(",")
}

/// Tries of a user that was deleted.
async fn not_let_in(what: &str, servers: &[RedisServer], url: &str) {
    let tell = |words: &[&str]| servers.iter().for_each(|server| drop(server.command(words)));
    tell(&["ACL", "SETUSER", "probe", "on", ">secret", "~*", "&*", "+@all"]);
    let mut probe = probe(url).await;
    // This closes the connections of the process.
    tell(&["ACL", "DELUSER", "probe"]);
    notices(&mut probe).await;
    leaves_nothing(&format!("{what}, not let in"), &mut probe, "Denied").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_leaks_nothing_on_failed_tries() {
    let server = [RedisServer::start(RedisOptions::default())];
    for options in ["", "?scheme=setnx", "?scheme=getset"] {
        let (what, at) = (format!("redis{options}"), server[0].address());
        not_let_in(&what, &server, &format!("redis://probe:secret@{at}{options}")).await;
        busy_and_down(&what, &format!("redis://{at}{options}"), || server[0].kill()).await;
        server[0].restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock_leaks_nothing_on_failed_tries() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start(RedisOptions::default())).collect();
    let at = list(servers.iter().map(RedisServer::address));
    not_let_in("redlock", &servers, &format!("redlock://probe:secret@{at}?quarantine=off")).await;
    let kill = || servers.iter().for_each(RedisServer::kill);
    busy_and_down("redlock", &format!("redlock://{at}?quarantine=off"), kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memcached_leaks_nothing_on_failed_tries() {
    let server = MemcachedServer::start(MemcachedOptions::default());
    let url = format!("memcached://{}?quarantine=off", server.address());
    busy_and_down("memcached", &url, || server.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_leaks_nothing_on_failed_tries() {
    let options = EtcdOptions { grant: Some("app/".to_owned()), ..EtcdOptions::default() };
    let server = EtcdServer::start(options);
    let login = format!("etcd://app:s3cr%40t@{}", server.address());
    let mut probe = probe(&format!("{login}?namespace=other/")).await;
    leaves_nothing("etcd, denied", &mut probe, "Denied").await;
    busy_and_down("etcd", &format!("{login}?namespace=app/"), || server.kill()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper_leaks_nothing_on_failed_tries() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::default());
    for options in ["", "?scheme=single"] {
        let member = &server.members()[0];
        let (one, other) = (
            format!("zookeeper://one:1@{}{options}", member.address()),
            format!("zookeeper://two:2@{}{options}", member.address()),
        );
        if options.is_empty() {
            // Creates nodes that another user may not access.
            for guard in hold(&one).await.1 {
                guard.release().await.expect("held");
            }
            let mut probe = probe(&other).await;
            leaves_nothing("zookeeper, denied", &mut probe, "Denied").await;
        }
        busy_and_down(&format!("zookeeper{options}"), &one, || member.kill()).await;
        member.restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_leaks_nothing_on_failed_tries() {
    let server = PostgresServer::start(PostgresOptions::default());
    let at = server.address();
    for scheme in ["row", "insert", "session"] {
        let url = server.url(at, &format!("scheme={scheme}"));
        if scheme == "row" {
            drop(hold(&url).await);
            let tables = "latchwork_lock, latchwork_claim";
            server.psql(&format!("CREATE ROLE probe LOGIN; GRANT ALL ON {tables} TO probe"));
            let mut probe = probe(&format!("postgres://probe@{at}/postgres")).await;
            server.psql(&format!("REVOKE ALL ON {tables} FROM probe"));
            leaves_nothing("postgres, denied", &mut probe, "Denied").await;
            server.psql("ALTER ROLE probe NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'probe'");
            notices(&mut probe).await;
            leaves_nothing("postgres, not let in", &mut probe, "Denied").await;
        }
        busy_and_down(&format!("postgres {scheme}"), &url, || server.kill()).await;
        server.restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_leaks_nothing_on_failed_tries() {
    let server = MariadbServer::start(MariadbOptions::default());
    let at = server.address();
    for scheme in ["row", "insert", "session"] {
        let url = server.url(at, &format!("scheme={scheme}"));
        if scheme == "row" {
            drop(hold(&url).await);
            let grants = |verb: &str, side: &str| {
                let grant = |table: &str| format!("{verb} ALL ON locks.latchwork_{table} {side} probe;");
                server.sql(&[grant("lock"), grant("claim")].concat())
            };
            server.sql("CREATE USER probe");
            grants("GRANT", "TO");
            let mut probe = probe(&format!("mariadb://probe@{at}/locks")).await;
            grants("REVOKE", "FROM");
            leaves_nothing("mysql, denied", &mut probe, "Denied").await;
            server.sql("ALTER USER probe ACCOUNT LOCK; KILL USER probe");
            notices(&mut probe).await;
            leaves_nothing("mysql, not let in", &mut probe, "Denied").await;
        }
        busy_and_down(&format!("mysql {scheme}"), &url, || server.kill()).await;
        server.restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_leaks_nothing_on_failed_tries() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let (_held, mut probe) = (hold(&url).await, probe(&url).await);
    leaves_nothing("sqlite, busy", &mut probe, HELD).await;
}
