//! The server loses data while it runs: all keys, all scripts, all connections.

use std::time::Duration;

use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::store::Written;
use testkit::workload::contenders::{Contenders, TTL};

use super::harness::{LOCK, LONG, RedisHarness, SOON, now, pause, take, wait_for_loss, wait_for_renewal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_key_was_flushed_is_told_at_its_next_renewal_and_refused_by_the_store() {
    let harness = RedisHarness::new();
    let clients = harness.clients(2).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    let flushed = harness.inject(Fault::DataDeleted, || {
        assert!(harness.server.command(&["FLUSHALL"]).is("OK"));
        now()
    });
    let lease_end = guard.lease_end();
    let next = take(&clients[1].lock(LOCK).ttl(TTL)).await;
    assert!(next.token().unwrap() > guard.token().unwrap(), "tokens rise though the last one is forgotten");
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    let told = now().since(flushed);
    println!("told {told:?} after the flush");
    // On a machine that stalls, a renewal is late. But it is the next renewal, and comes before the lease
    // ends.
    assert!(told < TTL && guard.lease_end() == lease_end, "told {told:?} after the flush");
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert!(next.is_certain(), "the loser's release took the lock from the next holder");
    next.release().await.expect("held");
    assert_eq!(harness.judge(&clients, SOON).await.excused(), 1, "only holds under the fault");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_survive_flushes_of_all_keys_with_rising_tokens() {
    let harness = RedisHarness::new();
    let clients = harness.clients(5).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(3));
    for _ in 0..3 {
        contenders.wait_for_holds(20).await;
        harness.inject(Fault::DataDeleted, || harness.server.command(&["FLUSHALL"]));
    }
    // A waiter that the flush removed from the queue discovers that at its next heartbeat.
    contenders.wait_for_holds(40).await;
    let tally = contenders.stop().await;
    assert!(tally.errors.iter().all(|error| error.kind() == ErrorKind::Lost), "{tally:?}");
    assert!(harness.judge(&clients, SOON).await.exclusive() >= 90, "hardly any hold is excused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_notices_a_script_flush() {
    let harness = RedisHarness::new();
    let clients = harness.clients(5).await;
    let guard = take(&clients[0].lock("held throughout").ttl(TTL)).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(2));
    for _ in 0..40 {
        contenders.wait_for_holds(4).await;
        assert!(harness.server.command(&["SCRIPT", "FLUSH"]).is("OK"));
    }
    wait_for_renewal(&guard).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.errors.is_empty(), "{tally:?}");
    guard.release().await.expect("held");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() > 160 && judged.excused() == 0, "no hold is excused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_whose_connections_are_killed_lose_no_lock_and_get_their_turns() {
    let harness = RedisHarness::new();
    let clients = harness.clients(5).await;
    let guard = take(&clients[0].lock("held throughout").ttl(TTL)).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(2));
    for _ in 0..15 {
        contenders.wait_for_holds(12).await;
        harness.inject(Fault::Partition, || {
            for kind in ["normal", "pubsub"] {
                harness.server.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
            }
        });
    }
    contenders.wait_for_holds(12).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() > 160 && judged.excused() == 0, "no hold is excused");
}

/// Its queue entry went with its connection, and it is in the queue again before anything could notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connection_was_killed_is_still_handed_the_lock() {
    let harness = RedisHarness::new();
    let clients = harness.clients(2).await;
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let lock = clients[1].lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&clients[0], 1).await;
    harness.inject(Fault::Partition, || {
        assert!(harness.server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).integer() > 0);
    });
    // The holder's connection was killed as well, and it has no subscription.
    harness.until_listening(1).await;
    harness.wait_for_waiters(&clients[0], 1).await;
    let before = harness.newest_token();
    guard.release().await.expect("held");
    let handed_over = harness.newest_token();
    assert!(handed_over > before, "the release found no waiter to hand the lock to");
    let next = waiting.await.expect("no panic");
    assert_eq!(next.token().unwrap().engine_token(), handed_over, "the waiter had to poll");
    // Longer than its queue entry would have lasted: a handed-over lock is renewed like any other.
    pause(3_500).await;
    assert!(next.is_certain() && harness.free_in() > 3_000, "renewed to its own ttl");
    assert!(clients[0].lock(LOCK).try_acquire().await.expect("an answer").is_none());
    next.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}
