//! A single server is killed and restarts with its data; and one that compacts its history.

use std::time::Duration;

use testkit::history::Fault;
use testkit::workload::contenders::Contenders;

use super::harness::{ClusterHarness, EtcdHarness, LOCK, LONG, SOON, take, wait_for_renewal};

const TTL: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_restarts_with_its_holder_and_queue() {
    let harness = EtcdHarness::one();
    let clients = harness.clients(4).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let queue = harness.enqueue(&clients[1..], LONG).await;
    let before = harness.keys();
    harness.inject(Fault::Restart, || harness.servers.restart());
    assert_eq!(harness.keys(), before);
    wait_for_renewal(&guard).await;
    wait_for_renewal(&guard).await;
    assert!(guard.is_certain(), "held all the time");
    queue.granted_in_order_after(guard).await;
    assert_eq!(harness.judge(&clients, SOON).await.excused(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_continue_undisturbed_after_the_kill() {
    let harness = EtcdHarness::one();
    let clients = harness.clients(5).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(3));
    for _ in 0..3 {
        contenders.wait_for_holds(20).await;
        harness.inject(Fault::Restart, || harness.servers.restart());
    }
    contenders.wait_for_holds(20).await;
    let tally = contenders.stop().await;
    assert!(tally.refused == 0 && tally.only_unreachable_or_lost(), "{tally:?}");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 80 && judged.excused() == 0, "no hold is excused");
}

/// The server ends a watch that starts at a compacted revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_waiter_is_stuck_when_the_server_compacts_old_revisions() {
    let harness = EtcdHarness::one();
    let clients = harness.clients(9).await;
    let guard = take(&clients[0].lock("held").ttl(TTL)).await;
    let holder = take(&clients[1].lock(LOCK)).await;
    let queue = harness.enqueue(&clients[2..5], LONG).await;
    // Behind the queue, because the lock is the same.
    let contenders = Contenders::start(&harness, &clients[5..], Duration::from_millis(2));
    harness.until_keys(8).await;
    for _ in 0..10 {
        let status = harness.etcdctl(&["put", "tick", "tock", "--write-out=fields"]);
        let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
        harness.etcdctl(&["compact", revision.expect("a revision")]);
    }
    queue.granted_in_order_after(holder).await;
    contenders.wait_for_holds(20).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.errors.is_empty(), "{tally:?}");
    wait_for_renewal(&guard).await;
    guard.release().await.expect("held");
    harness.etcdctl(&["del", "tick"]);
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 25 && judged.excused() == 0, "no hold is excused");
}
