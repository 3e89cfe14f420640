//! The requests that a contended lock costs its server, counted by the server.

use std::time::Duration;

use testkit::requests::{CountsRequests, RequestLoad, Requests};
use testkit::servers::{
    EtcdOptions, EtcdServer, RedisOptions, RedisServer, ZooKeeperOptions, ZooKeeperServer,
};
use testkit::worker_process::WorkerProcess;

/// Four processes with this many clients each.
fn check(server: &impl CountsRequests, clients: u32, turns: u32, hold: Duration) {
    let load = RequestLoad { processes: 4, clients, turns, hold, held: u32::MAX };
    let requests = Requests::of(&load, server, WorkerProcess::turns);
    let (each, most) = (requests.per_acquisition(), requests.allowed);
    println!("{each:.2} requests for an acquisition, at most {most:.2}: {requests:?}");
    assert!(each <= most, "{each:.2} requests for an acquisition, at most {most:.2}: {requests:?}");
    // A releasing client watches its own claim, and so may the next.
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
fn sixteen_waiters_send_redis_two_requests_for_each_short_turn() {
    check(&redis(), 4, 25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_on_redis_send_only_heartbeats_during_a_long_hold() {
    check(&redis(), 4, 1, Duration::from_millis(200));
}

#[test]
fn sixteen_waiters_send_etcd_four_requests_for_each_short_turn() {
    check(&etcd(), 4, 25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_on_etcd_send_only_keep_alives_during_a_long_hold() {
    check(&etcd(), 4, 1, Duration::from_millis(200));
}

/// A release wakes one waiter, not all.
#[test]
fn a_thousand_waiters_on_etcd_cost_no_more_for_each_turn_than_sixteen() {
    check(&etcd(), 250, 1, Duration::ZERO);
}

#[test]
fn sixteen_waiters_send_zookeeper_at_most_nine_requests_for_each_short_turn() {
    check(&zookeeper(), 4, 25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_on_zookeeper_send_only_heartbeats_during_a_long_hold() {
    check(&zookeeper(), 4, 1, Duration::from_millis(200));
}

/// A release wakes one waiter, not all.
#[test]
fn a_thousand_waiters_on_zookeeper_cost_no_more_for_each_turn_than_sixteen() {
    check(&zookeeper(), 250, 1, Duration::ZERO);
}
