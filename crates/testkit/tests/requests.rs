//! What a contended lock costs its server, counted by the server.

use std::time::Duration;

use testkit::requests::{CountsRequests, RequestLoad, Requests};
use testkit::servers::{
    EtcdOptions, EtcdServer, RedisOptions, RedisServer, ZooKeeperOptions, ZooKeeperServer,
};
use testkit::worker_process::WorkerProcess;

/// Four processes of so many clients each.
fn check(server: &impl CountsRequests, clients: u32, turns: u32, hold: Duration) {
    let load = RequestLoad { processes: 4, clients, turns, hold, held: u32::MAX };
    let requests = Requests::of(&load, server, WorkerProcess::turns);
    let (each, most) = (requests.per_acquisition(), requests.allowed);
    println!("{each:.2} requests for an acquisition, at most {most:.2}: {requests:?}");
    assert!(each <= most, "{each:.2} requests for an acquisition, at most {most:.2}: {requests:?}");
    // Whoever releases watches its own claim, and so may the next.
    if let Some(told) = requests.told {
        assert!(told <= 2 * requests.acquisitions, "more than one is woken by a release: {requests:?}");
    }
}

fn redis() -> RedisServer {
    RedisServer::start(RedisOptions::default())
}

fn zookeeper() -> ZooKeeperServer {
    ZooKeeperServer::start(ZooKeeperOptions::default())
}

fn etcd() -> EtcdServer {
    EtcdServer::start(EtcdOptions::default())
}

#[test]
fn sixteen_waiters_ask_redis_twice_for_each_short_turn() {
    check(&redis(), 4, 25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_of_redis_only_give_signs_of_life_while_another_holds_long() {
    check(&redis(), 4, 1, Duration::from_millis(200));
}

#[test]
fn sixteen_waiters_ask_etcd_four_times_for_each_short_turn() {
    check(&etcd(), 4, 25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_of_etcd_only_keep_their_leases_while_another_holds_long() {
    check(&etcd(), 4, 1, Duration::from_millis(200));
}

/// A release wakes one of them, not all.
#[test]
fn a_thousand_waiters_of_etcd_cost_no_more_for_each_turn_than_sixteen() {
    check(&etcd(), 250, 1, Duration::ZERO);
}

#[test]
fn sixteen_waiters_ask_zookeeper_nine_times_at_most_for_each_short_turn() {
    check(&zookeeper(), 4, 25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_of_zookeeper_only_give_signs_of_life_while_another_holds_long() {
    check(&zookeeper(), 4, 1, Duration::from_millis(200));
}

/// A release wakes one of them, not all.
#[test]
fn a_thousand_waiters_of_zookeeper_cost_no_more_for_each_turn_than_sixteen() {
    check(&zookeeper(), 250, 1, Duration::ZERO);
}
