//! Something happens to one of three members in the middle of contention.

use std::time::Duration;

use latchwork::ErrorKind;
use testkit::crowd::{Crowd, Tally};
use testkit::history::{Fault, RecordedClient};
use testkit::servers::EtcdCluster;
use testkit::store::Written;

use super::line::Line;
use super::scene::{LOCK, LONG, SOON, Scene, renewed, take};

/// Outlives an election and the time it takes to turn to another member.
const PATIENT: Duration = Duration::from_secs(8);
/// How long a turn takes.
const TURN: Duration = Duration::from_millis(3);

/// A holder, a line of waiters behind it, and a crowd on another lock: each goes on when the fault is over.
struct Play {
    scene: Scene<EtcdCluster>,
    clients: Vec<RecordedClient>,
}

impl Play {
    /// Everybody uses this member first.
    async fn on(scene: Scene<EtcdCluster>, member: usize) -> Self {
        let clients = scene.clients_of(member, 8).await;
        Self { scene, clients }
    }

    /// The lock of a patient holder, and its queue, outlive the fault.
    async fn queue_outlives(&self, fault: Fault, strike: impl AsyncFn()) {
        let guard = take(&self.clients[0].lock(LOCK).ttl(PATIENT)).await;
        let mut store = self.scene.store();
        assert_eq!(store.write(guard.token().expect("certain"), "before"), Written::Accepted);
        renewed(&guard).await;
        let line = Line::up(&self.scene, &self.clients[1..4], PATIENT).await;
        self.suffer(fault, strike).await;
        renewed(&guard).await;
        assert!(guard.is_certain(), "held all the time");
        let token = guard.token().expect("certain");
        assert_eq!(store.write(token, "after"), Written::Accepted);
        assert!(line.stands(), "nobody has the lock before it is released");
        if let Err(error) = guard.release().await {
            // Sent to a member that cannot be reached, and then again to another.
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        }
        line.served(token).await;
    }

    /// A crowd goes on.
    async fn crowd_outlives(&self, fault: Fault, strike: impl AsyncFn()) -> Tally {
        let crowd = Crowd::gather(&self.scene, &self.clients[4..], TURN);
        crowd.works(20).await;
        self.suffer(fault, strike).await;
        crowd.works(40).await;
        crowd.home().await
    }

    async fn suffer(&self, fault: Fault, strike: impl AsyncFn()) {
        self.scene.recorder.fault_began(fault);
        strike().await;
        self.scene.servers.until_healthy();
        self.scene.recorder.fault_ended(fault);
    }

    async fn is_judged(&self, tally: &Tally) {
        assert!(tally.refused == 0 && tally.only_unreachable_or_lost(), "{tally:?}");
        let judged = self.scene.judge(&self.clients, 2 * SOON).await;
        assert!(judged.exclusive() > 40, "most are not excused");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_killed() {
    let scene = Scene::three();
    let leader = scene.servers.leader();
    let play = Play::on(scene, leader).await;
    let kill_leader = async || play.scene.servers.member(play.scene.servers.leader()).kill();
    let bring_back = || play.scene.servers.members().iter().filter(|member| !member.runs());
    play.queue_outlives(Fault::Failover, kill_leader).await;
    bring_back().for_each(|member| member.restart());
    play.scene.servers.until_healthy();
    let tally = play.crowd_outlives(Fault::Failover, kill_leader).await;
    bring_back().for_each(|member| member.restart());
    play.scene.servers.until_healthy();
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
    let play = Play::on(scene, member).await;
    let stand_still = async || {
        play.scene.servers.member(member).pause();
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        play.scene.servers.member(member).resume();
    };
    // To those who lead no more, an election is a failover.
    play.queue_outlives(Fault::Failover, stand_still).await;
    let tally = play.crowd_outlives(Fault::Failover, stand_still).await;
    play.is_judged(&tally).await;
}

/// The other two members can be reached: clients turn to these, and the fault is none to whoever waits or works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_are_cut_off_from_their_member() {
    let play = Play::on(Scene::three(), 0).await;
    let cut_off = async || play.scene.proxies[0].refuse(true);
    play.queue_outlives(Fault::Partition, cut_off).await;
    play.scene.proxies[0].refuse(false);
    let again = Play { clients: play.scene.clients_of(0, 8).await, ..play };
    let cut_off = async || again.scene.proxies[0].refuse(true);
    let tally = again.crowd_outlives(Fault::Partition, cut_off).await;
    assert_eq!(tally.lost, 0, "{tally:?}");
    again.is_judged(&tally).await;
}

/// Nothing says that the connections are dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_network_between_clients_and_their_member_falls_silent() {
    let play = Play::on(Scene::three(), 0).await;
    let silence = async || play.scene.proxies[0].black_hole(true);
    play.queue_outlives(Fault::Partition, silence).await;
    play.scene.proxies[0].black_hole(false);
    let silence = async || {
        play.scene.proxies[0].black_hole(true);
        // Until everybody who used it has turned to another.
        tokio::time::sleep(Duration::from_secs(4)).await;
        play.scene.proxies[0].black_hole(false);
    };
    let tally = play.crowd_outlives(Fault::Partition, silence).await;
    play.is_judged(&tally).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_are_restarted_one_after_the_other() {
    let play = Play::on(Scene::three(), 0).await;
    let restart_all = async || {
        for member in play.scene.servers.members() {
            member.restart();
            play.scene.servers.until_healthy();
        }
    };
    play.queue_outlives(Fault::Failover, restart_all).await;
    let tally = play.crowd_outlives(Fault::Failover, restart_all).await;
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
