//! Something happens to one of three members in the middle of contention.

use std::time::Duration;

use testkit::history::Fault;
use testkit::play::Play;
use testkit::servers::EtcdCluster;
use testkit::store::Written;

use super::scene::{LOCK, LONG, SOON, Scene, renewed, take};

/// Outlives an election and the time it takes to turn to another member.
const PATIENT: Duration = Duration::from_secs(8);

/// Everybody uses this member first.
async fn play_on(scene: Scene<EtcdCluster>, member: usize) -> Play<Scene<EtcdCluster>> {
    let queue = scene.clients_of(member, 4).await;
    let crowd = scene.clients_of(member, 4).await;
    Play { theatre: scene, queue, crowd, ttl: PATIENT }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_killed() {
    let scene = Scene::three();
    let leader = scene.servers.leader();
    let play = play_on(scene, leader).await;
    let kill_leader = async || play.theatre.servers.member(play.theatre.servers.leader()).kill();
    let bring_back = || play.theatre.servers.members().iter().filter(|member| !member.runs());
    let tally = play.outlives(Fault::Failover, kill_leader).await;
    bring_back().for_each(|member| member.restart());
    play.theatre.servers.until_healthy();
    play.is_judged(&tally).await;
}

/// Connections stay open, and nobody answers: `SIGSTOP`, as a machine that is out of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_all_clients_use_stands_still() {
    let scene = Scene::three();
    let follower = (scene.servers.leader() + 1) % 3;
    stands_still(scene, follower).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_that_all_clients_use_stands_still() {
    let scene = Scene::three();
    let leader = scene.servers.leader();
    stands_still(scene, leader).await;
}

async fn stands_still(scene: Scene<EtcdCluster>, member: usize) {
    let play = play_on(scene, member).await;
    let stand_still = async || {
        play.theatre.servers.member(member).pause();
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        play.theatre.servers.member(member).resume();
    };
    // To those who lead no more, an election is a failover.
    let tally = play.outlives(Fault::Failover, stand_still).await;
    play.is_judged(&tally).await;
}

/// The other two members can be reached: clients turn to these, and the fault is none to whoever waits or works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_cut_off_from_their_member() {
    let play = play_on(Scene::three(), 0).await;
    let cut_off = async || play.theatre.proxies[0].refuse(true);
    let tally = play.outlives(Fault::Partition, cut_off).await;
    assert_eq!(tally.lost, 0, "{tally:?}");
    play.is_judged(&tally).await;
}

/// Nothing says that the connections are dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_network_between_clients_and_their_member_falls_silent() {
    let play = play_on(Scene::three(), 0).await;
    let silence = async || {
        play.theatre.proxies[0].black_hole(true);
        // Until everybody who used it has turned to another.
        tokio::time::sleep(Duration::from_secs(4)).await;
        play.theatre.proxies[0].black_hole(false);
    };
    let tally = play.outlives(Fault::Partition, silence).await;
    play.is_judged(&tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_are_restarted_one_after_the_other() {
    let play = play_on(Scene::three(), 0).await;
    let restart_all = async || {
        for member in play.theatre.servers.members() {
            member.restart();
            play.theatre.servers.until_healthy();
        }
    };
    let tally = play.outlives(Fault::Failover, restart_all).await;
    play.is_judged(&tally).await;
}

/// Whoever holds when the leader is paused for longer than its lease, and is told so, is refused by the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_cut_off_for_longer_than_its_lease_is_refused_by_the_store() {
    let scene = Scene::divisible();
    let lonely = scene.servers.leader();
    let url = format!("etcd://{}", scene.servers.member(lonely).address());
    let (client, other) = (scene.connect(&url).await, scene.clients_of((lonely + 1) % 3, 1).await.remove(0));
    let guard = take(&client.lock(LOCK).ttl(Duration::from_secs(2))).await;
    let (old, mut store) = (guard.token().expect("certain"), scene.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    renewed(&guard).await;
    scene.recorder.fault_began(Fault::Partition);
    // A leader that leads nobody, and the one client that knows only this member.
    scene.servers.cut_off(lonely);
    let rival = other.lock(LOCK).ttl(LONG).wait(LONG);
    let rival = tokio::spawn(async move { rival.acquire().await });
    super::scene::told(&guard).await;
    assert!(!rival.is_finished(), "another had it before");
    let next = rival.await.expect("no panic").expect("its turn comes");
    assert!(next.token().expect("certain") > old);
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    drop(guard);
    scene.servers.heal(lonely);
    scene.servers.until_healthy();
    scene.recorder.fault_ended(Fault::Partition);
    // What the former leader still wanted to say about leases arrives now.
    super::scene::pause(500).await;
    assert!(next.is_certain(), "what came late took the lock away");
    next.release().await.expect("held");
    scene.judge(&[client, other], SOON).await;
}
