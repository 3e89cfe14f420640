//! Without a majority nothing is granted, and every holder is told in time.

use latchwork::Loss;
use testkit::history::Fault;
use testkit::scenarios::cluster::ClusterHarness;
use testkit::servers::ZooKeeperMember;
use testkit::unreachable_claims::UnreachableClaims;
use testkit::workload::contenders::MARGIN;

use super::harness::{
    LOCK, LONG, MORTAL, SOON, ZookeeperHarness, now, take, wait_for_loss, wait_for_renewal,
};

/// One holder, one waiter, and other clients that try while two of three members are down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nothing_is_granted_and_the_holder_is_told_in_time() {
    let harness = ZookeeperHarness::three();
    let (mut clients, patient) = (vec![harness.client(MORTAL).await], harness.client("30s").await);
    clients.extend(harness.clients(3, "3s").await);
    let guard = take(&clients[0].lock(LOCK).ttl(LONG).with(|lock| lock.stop_margin(MARGIN))).await;
    let held = take(&patient.lock("patient").ttl(LONG)).await;
    wait_for_renewal(&guard).await;
    let queue = harness.enqueue(&clients[1..2], LONG).await;
    let gone = &harness.server.members()[1..];
    harness.recorder.fault_began(Fault::Partition);
    gone.iter().for_each(ZooKeeperMember::kill);
    let [waited, tried] = [2, 3].map(|client| clients[client].lock("free").ttl(LONG));
    let in_vain = UnreachableClaims::asked(waited, tried);
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let early = guard.lease_end().since(now());
    assert!(!early.is_zero(), "told after its lease had ended");
    println!("told {early:?} before the end");
    in_vain.refused().await;
    assert!(queue.all_waiting(), "no false grant");
    assert!(held.is_certain(), "its session is long");
    gone.iter().for_each(ZooKeeperMember::start_again);
    harness.until_healthy();
    harness.recorder.fault_ended(Fault::Partition);
    drop(guard);
    queue.granted_in_order(held.token().expect("certain")).await;
    held.release().await.expect("the lock was held throughout");
    take(&clients[2].lock("free").ttl(LONG)).await.release().await.expect("held");
    clients.push(patient);
    harness.judge(&clients, 2 * SOON).await;
}
