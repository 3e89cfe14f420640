//! Faults of one of three members in the middle of contention.

use std::time::Duration;

use testkit::history::{Fault, RecordedClient, RecordedGuard};
use testkit::scenarios::cluster::{ClusterHarness as _, ClusterScenario};
use testkit::servers::{ZooKeeperMember, ZooKeeperOptions};

use super::harness::{LOCK, LONG, SOON, ZookeeperHarness, now, pause, take};

/// Longer than an election and the time to switch to another member.
const PATIENT: Duration = Duration::from_secs(10);
/// The session timeout of the contenders.
const SHORT: &str = "2s";

/// The start and the end of a fault of a member.
type Trouble = [fn(&ZookeeperHarness, usize); 2];
const STANDS_STILL: Trouble =
    [|harness, at| harness.server.members()[at].pause(), |harness, at| harness.server.members()[at].resume()];
/// A fault of the network between clients and the member.
const SILENT: Trouble =
    [|harness, at| harness.proxies[at].black_hole(true), |harness, at| harness.proxies[at].black_hole(false)];
/// A fault of the network between the other members and this one.
const CUT_OFF: Trouble = [|harness, at| harness.server.cut_off(at), |harness, at| harness.server.heal(at)];

/// Clients that use this member first: the others cannot be reached when they connect.
async fn clients_of(harness: &ZookeeperHarness, member: usize, sessions: &[&str]) -> Vec<RecordedClient> {
    let others =
        || harness.proxies.iter().enumerate().filter(|(at, _)| *at != member).map(|(_, proxy)| proxy);
    others().for_each(|proxy| proxy.refuse(true));
    let mut clients = Vec::new();
    for session in sessions {
        clients.push(harness.client(session).await);
    }
    others().for_each(|proxy| proxy.refuse(false));
    clients
}

async fn scenario_on(harness: ZookeeperHarness, member: usize) -> ClusterScenario<ZookeeperHarness> {
    let queue = clients_of(&harness, member, &["10s"; 4]).await;
    let contenders = clients_of(&harness, member, &[SHORT; 4]).await;
    ClusterScenario { harness, queue, contenders, ttl: PATIENT }
}

fn leader(harness: &ZookeeperHarness) -> usize {
    harness.server.members().iter().position(ZooKeeperMember::is_leader).expect("there is a leader")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_the_kill_of_the_leader_and_a_rolling_restart() {
    let harness = ZookeeperHarness::three();
    let first = leader(&harness);
    let scenario = scenario_on(harness, first).await;
    let members = || scenario.harness.server.members();
    let bring_back = || members().iter().filter(|member| !member.runs()).for_each(ZooKeeperMember::restart);
    let kill_leader = async || members()[leader(&scenario.harness)].kill();
    let mut tally = scenario.survives(Fault::Failover, kill_leader).await;
    bring_back();
    scenario.harness.until_healthy();
    let restart_all = async || {
        for member in members() {
            member.restart();
            scenario.harness.until_healthy();
        }
    };
    tally += scenario.survives(Fault::Failover, restart_all).await;
    scenario.is_judged(&tally).await;
}

/// Connections stay open, and nothing is answered: `SIGSTOP`, like a machine that is out of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_stopped_member_that_all_clients_use() {
    let options = ZooKeeperOptions { is_impatient: true, ..ZooKeeperOptions::three() };
    contention_survives(options, STANDS_STILL).await;
}

/// Clients can reach the member, and until it has noticed, it answers every request that it can answer by
/// itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_cut_off_member_that_all_clients_use() {
    let options = ZooKeeperOptions { is_impatient: true, ..ZooKeeperOptions::divisible() };
    contention_survives(options, CUT_OFF).await;
}

/// Injects the fault into a follower, and then into the leader.
async fn contention_survives(options: ZooKeeperOptions, [begin, end]: Trouble) {
    let harness = ZookeeperHarness::new(options);
    let follower = (leader(&harness) + 1) % 3;
    let mut scenario = scenario_on(harness, follower).await;
    let fault = async |scenario: &ClusterScenario<ZookeeperHarness>, member: usize| {
        begin(&scenario.harness, member);
        pause(2_500).await;
        end(&scenario.harness, member);
    };
    let mut tally = scenario.survives(Fault::Failover, async || fault(&scenario, follower).await).await;
    let leader = leader(&scenario.harness);
    scenario = scenario_on(scenario.harness, leader).await;
    tally += scenario.survives(Fault::Failover, async || fault(&scenario, leader).await).await;
    scenario.is_judged(&tally).await;
}

/// The other two members can be reached: clients switch to these, and neither holders nor waiters notice the
/// fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_survives_a_partition_or_a_black_hole_between_clients_and_their_member() {
    let mut scenario = scenario_on(ZookeeperHarness::three(), 0).await;
    let refuse = async || scenario.harness.proxies[0].refuse(true);
    let mut tally = scenario.survives(Fault::Partition, refuse).await;
    assert_eq!(tally.lost, 0, "{tally:?}");
    scenario.harness.proxies[0].refuse(false);
    scenario = scenario_on(scenario.harness, 0).await;
    // No error tells the clients that the connections are dead.
    let silence = async || {
        scenario.harness.proxies[0].black_hole(true);
        // Until all contenders have switched to another member. The queue's clients have longer sessions.
        pause(2_500).await;
        scenario.harness.proxies[0].black_hole(false);
    };
    tally += scenario.survives(Fault::Partition, silence).await;
    scenario.is_judged(&tally).await;
}

/// Its member falls silent, or answers only what it can answer by itself. Both last longer than the session,
/// so that a holder that stays would lose its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_switches_to_another_member_in_time() {
    let harness = ZookeeperHarness::new(ZooKeeperOptions::divisible());
    let follower = (leader(&harness) + 1) % 3;
    let mut clients = Vec::new();
    for [begin, end] in [SILENT, CUT_OFF] {
        let client = clients_of(&harness, follower, &["6s"]).await.remove(0);
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        begin(&harness, follower);
        is_kept(&guard).await;
        end(&harness, follower);
        harness.until_healthy();
        guard.release().await.expect("the lock was held throughout");
        clients.push(client);
    }
    harness.judge(&clients, SOON).await;
}

/// For longer than its session lives without a heartbeat.
async fn is_kept(guard: &RecordedGuard) {
    let end = now().after(Duration::from_secs(7));
    while now() < end {
        assert!(guard.is_certain(), "it stayed");
        pause(20).await;
    }
}
