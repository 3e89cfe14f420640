//! Something happens to members of three in the middle of contention.

use std::time::Duration;

use testkit::history::Fault;
use testkit::play::{Play, Theatre as _};
use testkit::servers::{ZooKeeperMember, ZooKeeperOptions};

use super::scene::{Scene, pause};

/// Outlives an election and the time it takes to turn to another member.
const PATIENT: Duration = Duration::from_secs(10);
/// What whoever is in the crowd has.
const SHORT: &str = "2s";

/// Everybody uses this member first: the others cannot be reached when they come.
async fn play_on(scene: Scene, member: usize) -> Play<Scene> {
    let others = || scene.proxies.iter().enumerate().filter(|(at, _)| *at != member).map(|(_, proxy)| proxy);
    others().for_each(|proxy| proxy.refuse(true));
    let queue = scene.clients(4, "10s").await;
    let crowd = scene.clients(4, SHORT).await;
    others().for_each(|proxy| proxy.refuse(false));
    Play { theatre: scene, queue, crowd, ttl: PATIENT }
}

fn leader(scene: &Scene) -> usize {
    scene.server.members().iter().position(ZooKeeperMember::is_leader).expect("one leads")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_killed_and_then_all_are_restarted_one_after_the_other() {
    let scene = Scene::three();
    let first = leader(&scene);
    let play = play_on(scene, first).await;
    let members = || play.theatre.server.members();
    let bring_back = || members().iter().filter(|member| !member.runs()).for_each(ZooKeeperMember::restart);
    let kill_leader = async || members()[leader(&play.theatre)].kill();
    let mut tally = play.outlives(Fault::Failover, kill_leader).await;
    bring_back();
    play.theatre.until_healthy();
    let restart_all = async || {
        for member in members() {
            member.restart();
            play.theatre.until_healthy();
        }
    };
    tally += play.outlives(Fault::Failover, restart_all).await;
    play.is_judged(&tally).await;
}

/// Connections stay open, and nobody answers: `SIGSTOP`, as a machine that is out of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_member_that_all_clients_use_stands_still() {
    let scene = Scene::new(ZooKeeperOptions { is_impatient: true, ..ZooKeeperOptions::three() });
    let first = leader(&scene);
    // The leader, and then whoever follows.
    let mut play = play_on(scene, (first + 1) % 3).await;
    let stand_still = async |play: &Play<Scene>, member: usize| {
        play.theatre.server.members()[member].pause();
        pause(2_500).await;
        play.theatre.server.members()[member].resume();
    };
    let follower = async || stand_still(&play, (first + 1) % 3).await;
    let mut tally = play.outlives(Fault::Failover, follower).await;
    let leader = leader(&play.theatre);
    play = play_on(play.theatre, leader).await;
    let leader = async || stand_still(&play, leader).await;
    tally += play.outlives(Fault::Failover, leader).await;
    play.is_judged(&tally).await;
}

/// The other two members can be reached: clients turn to these, and the fault is none to whoever waits or works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_cut_off_from_their_member_or_it_falls_silent() {
    let mut play = play_on(Scene::three(), 0).await;
    let refuse = async || play.theatre.proxies[0].refuse(true);
    let mut tally = play.outlives(Fault::Partition, refuse).await;
    assert_eq!(tally.lost, 0, "{tally:?}");
    play.theatre.proxies[0].refuse(false);
    play = play_on(play.theatre, 0).await;
    // Nothing says that the connections are dead.
    let silence = async || {
        play.theatre.proxies[0].black_hole(true);
        // Until everybody in the crowd has turned to another member. Those who queue are more patient.
        pause(2_500).await;
        play.theatre.proxies[0].black_hole(false);
    };
    tally += play.outlives(Fault::Partition, silence).await;
    play.is_judged(&tally).await;
}
