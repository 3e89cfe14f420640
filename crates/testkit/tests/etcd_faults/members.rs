//! Faults of one of three members in the middle of contention.

use std::time::Duration;

use testkit::history::Fault;
use testkit::scenarios::cluster::ClusterScenario;
use testkit::servers::EtcdCluster;
use testkit::store::Written;

use super::harness::{EtcdHarness, LOCK, LONG, SOON, take, wait_for_renewal};

/// Longer than an election and the time to switch to another member.
const PATIENT: Duration = Duration::from_secs(8);

/// All clients use this member first.
async fn scenario_on(
    harness: EtcdHarness<EtcdCluster>,
    member: usize,
) -> ClusterScenario<EtcdHarness<EtcdCluster>> {
    let queue = harness.clients_of(member, 4).await;
    let contenders = harness.clients_of(member, 4).await;
    ClusterScenario { harness, queue, contenders, ttl: PATIENT }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_the_kill_of_the_leader() {
    let harness = EtcdHarness::three();
    let leader = harness.servers.leader();
    let scenario = scenario_on(harness, leader).await;
    let kill_leader = async || scenario.harness.servers.member(scenario.harness.servers.leader()).kill();
    let bring_back = || scenario.harness.servers.members().iter().filter(|member| !member.runs());
    let tally = scenario.survives(Fault::Failover, kill_leader).await;
    bring_back().for_each(|member| member.restart());
    scenario.harness.servers.until_healthy();
    scenario.is_judged(&tally).await;
}

/// Connections stay open, and nothing is answered: `SIGSTOP`, like a machine that is out of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_stopped_follower_that_all_clients_use() {
    let harness = EtcdHarness::three();
    let follower = (harness.servers.leader() + 1) % 3;
    contention_survives_a_stopped_member(harness, follower).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_stopped_leader_that_all_clients_use() {
    let harness = EtcdHarness::three();
    let leader = harness.servers.leader();
    contention_survives_a_stopped_member(harness, leader).await;
}

async fn contention_survives_a_stopped_member(harness: EtcdHarness<EtcdCluster>, member: usize) {
    let scenario = scenario_on(harness, member).await;
    let stop_member = async || {
        scenario.harness.servers.member(member).pause();
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        scenario.harness.servers.member(member).resume();
    };
    // For a holder under the former leader, an election is a failover.
    let tally = scenario.survives(Fault::Failover, stop_member).await;
    scenario.is_judged(&tally).await;
}

/// The other two members can be reached: clients switch to these, and neither holders nor waiters notice the
/// fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_partition_between_clients_and_their_member() {
    let scenario = scenario_on(EtcdHarness::three(), 0).await;
    let cut_off = async || scenario.harness.proxies[0].refuse(true);
    let tally = scenario.survives(Fault::Partition, cut_off).await;
    assert_eq!(tally.lost, 0, "{tally:?}");
    scenario.is_judged(&tally).await;
}

/// No error tells the clients that the connections are dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_black_hole_between_clients_and_their_member() {
    let scenario = scenario_on(EtcdHarness::three(), 0).await;
    let silence = async || {
        scenario.harness.proxies[0].black_hole(true);
        // Until all its clients have switched to another member.
        tokio::time::sleep(Duration::from_secs(4)).await;
        scenario.harness.proxies[0].black_hole(false);
    };
    let tally = scenario.survives(Fault::Partition, silence).await;
    scenario.is_judged(&tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_rolling_restart() {
    let scenario = scenario_on(EtcdHarness::three(), 0).await;
    let restart_all = async || {
        for member in scenario.harness.servers.members() {
            member.restart();
            scenario.harness.servers.until_healthy();
        }
    };
    let tally = scenario.survives(Fault::Failover, restart_all).await;
    scenario.is_judged(&tally).await;
}

/// A holder whose leader is paused for longer than the lease is told of the loss, and the store refuses its
/// writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_cut_off_for_longer_than_its_lease_is_refused_by_the_store() {
    let harness = EtcdHarness::divisible();
    let lonely = harness.servers.leader();
    let url = format!("etcd://{}", harness.servers.member(lonely).address());
    let (client, other) =
        (harness.connect(&url).await, harness.clients_of((lonely + 1) % 3, 1).await.remove(0));
    let guard = take(&client.lock(LOCK).ttl(Duration::from_secs(2))).await;
    let (old, mut store) = (guard.token().expect("certain"), harness.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    wait_for_renewal(&guard).await;
    harness.recorder.fault_began(Fault::Partition);
    // A leader without followers, and the one client that knows only this member.
    harness.servers.cut_off(lonely);
    let rival = other.lock(LOCK).ttl(LONG).wait(LONG);
    let rival = tokio::spawn(async move { rival.acquire().await });
    super::harness::wait_for_loss(&guard).await;
    assert!(!rival.is_finished(), "another client had it before");
    let next = rival.await.expect("no panic").expect("its turn comes");
    assert!(next.token().expect("certain") > old);
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    drop(guard);
    harness.servers.heal(lonely);
    harness.servers.until_healthy();
    harness.recorder.fault_ended(Fault::Partition);
    // The former leader's late messages about leases arrive now.
    super::harness::pause(500).await;
    assert!(next.is_certain(), "a late message revoked the lock");
    next.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}
