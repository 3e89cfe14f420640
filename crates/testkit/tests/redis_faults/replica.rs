//! A server that is a replica, becomes one, or takes over.

use latchwork::{Effect, ErrorKind, Loss};
use testkit::history::Fault;
use testkit::history::checks::{Excuses, tokens};
use testkit::network::proxy::Proxy;
use testkit::servers::{RedisOptions, RedisServer};
use testkit::store::Written;
use testkit::workload::contenders::{MARGIN, TTL, UNRENEWED};

use super::harness::{LOCK, LONG, RedisHarness, SOON, now, pause, take, wait_for_loss};

fn follow(server: &RedisServer, master: &str) {
    let words: Vec<_> = ["REPLICAOF"].into_iter().chain(master.split(' ')).collect();
    assert!(server.command(&words).is("OK"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused_and_named() {
    let (harness, master) = (RedisHarness::new(), RedisServer::start(RedisOptions::default()));
    follow(&harness.server, &format!("127.0.0.1 {}", master.port()));
    let error = latchwork::connect(&harness.direct_url("")).await.expect_err("a replica");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
    for part in ["replica", "master", &harness.server.address().to_string()] {
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    }
}

/// Its new master does not exist, so that its data stays as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_demoted_is_unreachable_until_it_is_master_again() {
    let harness = RedisHarness::new();
    let clients = harness.clients(3).await;
    let guard = take(&clients[0].lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN))).await;
    let other = take(&clients[0].lock("other")).await;
    let lock = clients[1].lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    harness.wait_for_waiters(&clients[2], 1).await;
    harness.recorder.fault_began(Fault::Trouble);
    follow(&harness.server, "127.0.0.1 1");

    // First on its current connection, then on a new one: another server may have the address by now.
    for says in ["the server is a replica", "grants no locks"] {
        let error = clients[2].lock(LOCK).try_acquire().await.expect_err("read only");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert!(error.to_string().contains(says) && error.to_string().contains("name the master"), "{error}");
    }
    let error = other.release().await.expect_err("read only");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    assert!(guard.lease_end() > now(), "told after its lease had ended");
    drop(guard);
    pause(500).await;
    assert!(!waiting.is_finished(), "a waiter gave up, or was given the lock by a replica");

    follow(&harness.server, "NO ONE");
    harness.recorder.fault_ended(Fault::Trouble);
    let next = tokio::time::timeout(SOON, waiting).await.expect("it goes on").expect("no panic");
    next.expect("its turn").release().await.expect("held");
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 3);
}

/// The two are cut off from each other before the grant, so that the replica never receives it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_without_the_newest_grant_gives_a_greater_token() {
    let config = vec![("repl-diskless-sync-delay".to_owned(), "0".to_owned())];
    let harness = RedisHarness::with(RedisOptions { config, ..Default::default() });
    let (replica, wire) = (RedisServer::start(RedisOptions::default()), Proxy::to(harness.server.address()));
    follow(&replica, &format!("127.0.0.1 {}", wire.address().port()));
    while !replica.command(&["INFO", "replication"]).text().contains("master_link_status:up") {
        pause(10).await;
    }
    let old = harness.client().await;
    wire.black_hole(true);
    let guard = take(&old.lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN))).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    harness.recorder.fault_began(Fault::Failover);
    harness.server.kill();
    follow(&replica, "NO ONE");
    harness.recorder.fault_ended(Fault::Failover);
    let new = harness.connect(&format!("redis://{}", replica.address())).await;
    let next = take(&new.lock(LOCK).ttl(TTL)).await;
    assert!(guard.is_certain(), "fenced only: for now there are two");
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable, "the old master is gone");
    assert!(guard.lease_end() > now(), "told after its lease had ended");
    next.release().await.expect("held");
    // Its release cannot reach any server.
    drop(guard);
    let history = harness.recorder.history();
    let excuses = Excuses::from_exclusion(&history, &new.client().guarantees());
    assert_eq!(tokens(&history, &excuses).unwrap_or_else(|violation| panic!("{violation}")).judged, 2);
}
