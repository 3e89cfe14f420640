//! An operator removes nodes by hand.

use std::time::Duration;

use latchwork::Loss;
use testkit::history::Fault;
use testkit::scenarios::cluster::ClusterHarness;
use testkit::workload::queue::served;

use super::harness::{
    LASTING, LOCK, LONG, SOON, ZookeeperHarness, nodes, path, pause, renewed, take, until_nodes,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_node_was_removed_is_told_at_once() {
    let harness = ZookeeperHarness::one();
    let (client, admin) = (harness.client(LASTING).await, harness.admin().await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    // Its node is watched from the first renewal on, two ninths of the session later; the second is as far
    // away.
    renewed(&guard).await;
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
    let mut line = harness.line_up(&clients[1..], LONG).await;
    let before = until_nodes(&admin, LOCK, 3).await;
    harness.recorder.fault_began(Fault::DataDeleted);
    admin.delete(&path(LOCK, &before[1])).await;
    // The middle one returns at the end of the queue.
    let again = until_nodes(&admin, LOCK, 3).await;
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert!(!again.contains(&before[1]));
    pause(200).await;
    assert!(line.stands() && held.is_certain(), "one holds, and only one");
    held.release().await.expect("held");
    let (middle, last) = (line.first(), line.first());
    served(last).await.release().await.expect("held");
    served(middle).await.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}
