//! Without a majority nothing is granted, and every holder is told in time.

use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::servers::EtcdCluster;
use testkit::unreachable_claims::UnreachableClaims;
use testkit::workload::contenders::{MARGIN, TTL, UNRENEWED};

use super::harness::{
    ClusterHarness, EtcdHarness, LOCK, LONG, SOON, now, take, wait_for_loss, wait_for_renewal,
};

/// One holder, one waiter, and other clients that try while there is no majority.
async fn nothing_is_granted(harness: &EtcdHarness<EtcdCluster>, strike: impl FnOnce(), heal: impl FnOnce()) {
    let clients = harness.clients(4).await;
    let guard = take(&clients[0].lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN))).await;
    let patient = take(&clients[1].lock("patient").ttl(LONG)).await;
    wait_for_renewal(&guard).await;
    let queue = harness.enqueue(&clients[1..2], LONG).await;
    harness.recorder.fault_began(Fault::Partition);
    strike();
    let [waited, tried] = [2, 3].map(|client| clients[client].lock("free").ttl(TTL));
    let in_vain = UnreachableClaims::asked(waited, tried);
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let early = guard.lease_end().since(now());
    assert!(!early.is_zero(), "told after its lease had ended");
    println!("told {early:?} before the end");
    let error = in_vain.refused().await;
    // Depending on whether the member knew already when it was asked.
    let says = ["is a majority of its members running?", "is it hung, or cut off?"];
    assert!(says.iter().any(|hint| error.to_string().contains(hint)), "{error}");
    assert!(queue.all_waiting(), "no false grant");
    assert!(patient.is_certain(), "its lease is long");
    heal();
    harness.servers.until_healthy();
    harness.recorder.fault_ended(Fault::Partition);
    drop(guard);
    queue.granted_in_order(patient.token().expect("certain")).await;
    patient.release().await.expect("the lock was held throughout");
    // A connection to a member that still hangs is retired after three seconds.
    let free = clients[2].lock("free").ttl(TTL).wait(LONG).acquire().await;
    free.expect("the lock becomes free").release().await.expect("held");
    harness.judge(&clients, LONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_after_two_kills_nothing_is_granted() {
    let harness = EtcdHarness::three();
    let gone = [1, 2].map(|turn| (harness.servers.leader() + turn) % 3);
    let kill = || gone.iter().for_each(|member| harness.servers.member(*member).kill());
    let restart = || gone.iter().for_each(|member| harness.servers.member(*member).restart());
    nothing_is_granted(&harness, kill, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_in_a_divided_network_nothing_is_granted() {
    let harness = EtcdHarness::divisible();
    let divide = || (0..2).for_each(|member| harness.servers.cut_off(member));
    let heal = || (0..2).for_each(|member| harness.servers.heal(member));
    nothing_is_granted(&harness, divide, heal).await;
}

/// The new leader restarts the lease's time, and the lease is kept alive for another lock: the key would
/// never expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_a_majority_is_retried() {
    let harness = EtcdHarness::three();
    let clients = harness.clients(2).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    harness.recorder.fault_began(Fault::Failover);
    harness.servers.members()[1..].iter().for_each(|member| member.kill());
    let error = guard.release().await.expect_err("no client can delete it");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    // No release is retried for longer than this.
    tokio::time::sleep(TTL).await;
    harness.servers.members()[1..].iter().for_each(|member| member.restart());
    harness.servers.until_healthy();
    harness.recorder.fault_ended(Fault::Failover);
    let kept_for = take(&clients[0].lock("another").ttl(TTL)).await;
    take(&clients[1].lock(LOCK).ttl(TTL)).await.release().await.expect("held");
    kept_for.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}
