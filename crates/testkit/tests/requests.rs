//! What a contended lock costs its server, counted by the server.

use std::time::Duration;

use testkit::requests::{Crowd, Requests};
use testkit::servers::{RedisOptions, RedisServer};
use testkit::worker::Worker;

fn check(turns: u32, hold: Duration) {
    let crowd = Crowd { processes: 4, clients: 4, turns, hold, held: u32::MAX };
    let server = RedisServer::start(RedisOptions::default());
    let requests = Requests::of(&crowd, &server, Worker::turns);
    let (each, most) = (requests.per_acquisition(), requests.allowed());
    assert!(each <= most, "{each:.2} requests for an acquisition, at most {most:.2}: {requests:?}");
}

#[test]
fn sixteen_waiters_ask_redis_twice_for_each_short_turn() {
    check(25, Duration::ZERO);
}

#[test]
fn sixteen_waiters_of_redis_only_give_signs_of_life_while_another_holds_long() {
    check(1, Duration::from_millis(200));
}
