//! An operator removes nodes by hand.

use std::time::Duration;

use latchwork::Loss;
use testkit::history::Fault;
use testkit::scenarios::cluster::ClusterHarness;
use testkit::workload::queue::granted;

use super::harness::{
    LASTING, LOCK, LONG, SOON, ZookeeperHarness, nodes, path, pause, take, until_nodes, wait_for_renewal,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_was_removed_is_told_at_once() {
    let harness = ZookeeperHarness::one();
    let (client, admin) = (harness.client(LASTING).await, harness.admin().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    // Its node is watched from the first renewal on, two ninths of the session later; the second is as far
    // away.
    wait_for_renewal(&guard).await;
    let own = nodes(&admin, LOCK).await.remove(0);
    harness.recorder.fault_began(Fault::DataDeleted);
    admin.delete(&path(LOCK, &own)).await;
    let loss = tokio::time::timeout(Duration::from_secs(2), guard.lost()).await;
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert_eq!(loss.expect("told at once, not by the next renewal"), Loss::Removed);
    drop(guard);
    harness.judge(&[client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_node_was_removed_queues_again_and_its_successor_is_not_promoted() {
    let harness = ZookeeperHarness::one();
    let (clients, admin) = (harness.clients(3, LASTING).await, harness.admin().await);
    let held = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let mut queue = harness.enqueue(&clients[1..], LONG).await;
    let before = until_nodes(&admin, LOCK, 3).await;
    harness.recorder.fault_began(Fault::DataDeleted);
    admin.delete(&path(LOCK, &before[1])).await;
    // The middle one returns at the end of the queue.
    let again = until_nodes(&admin, LOCK, 3).await;
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert!(!again.contains(&before[1]));
    pause(200).await;
    assert!(queue.all_waiting() && held.is_certain(), "exactly one holds");
    held.release().await.expect("held");
    let (middle, last) = (queue.take_first(), queue.take_first());
    granted(last).await.release().await.expect("held");
    granted(middle).await.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}
