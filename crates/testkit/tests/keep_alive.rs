//! The requests that a thousand held locks cost their server: one heartbeat serves them all.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, Guard};
use testkit::servers::{EtcdOptions, EtcdServer, ZooKeeperMeter, ZooKeeperOptions, ZooKeeperServer};

const LOCKS: usize = 1_000;
const HANDS: usize = 50;
/// A renewal that is not answered within a sixth of this goes to another connection, where all keys are
/// checked again. No machine stalls for that long.
const TTL: Duration = Duration::from_secs(6);
/// The measured time. Every lock was renewed for the first time before, and its node or key is watched since
/// then.
const QUIET: Duration = Duration::from_secs(8);

/// Every request that can concern a key or a lease.
const ALL: [&str; 8] =
    ["Txn", "Range", "Put", "DeleteRange", "LeaseGrant", "LeaseKeepAlive", "LeaseTimeToLive", "LeaseRevoke"];

async fn hold_all(client: &Client, ttl: Duration) -> Vec<Guard> {
    let hand = |first: usize| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut guards = Vec::new();
            for number in (first..LOCKS).step_by(HANDS) {
                let lock = client.lock(format!("held/{number}")).ttl(ttl);
                guards.push(lock.acquire().await.expect("it is free"));
            }
            guards
        })
    };
    let mut guards = Vec::new();
    for hand in (0..HANDS).map(hand).collect::<Vec<_>>() {
        guards.append(&mut hand.await.expect("no panic"));
    }
    guards
}

/// Waits until each lease was renewed: it ends later than before.
async fn until_renewed(guards: &[Guard]) {
    let first: Vec<_> = guards.iter().map(|guard| guard.lease_end()).collect();
    let is_renewed = || guards.iter().zip(&first).all(|(guard, first)| guard.lease_end() > *first);
    let waiting = async {
        while !is_renewed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("all are renewed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_locks_on_etcd_are_kept_by_one_lease() {
    let server = EtcdServer::start(EtcdOptions::default());
    let client = latchwork::connect(&format!("etcd://{}", server.address())).await.expect("the process runs");
    let guards = hold_all(&client, TTL).await;
    until_renewed(&guards).await;
    let [beats, all] = [&["LeaseKeepAlive"][..], &ALL[..]].map(|methods| server.calls(methods));
    tokio::time::sleep(QUIET).await;
    let (beats, all) = (server.calls(&["LeaseKeepAlive"]) - beats, server.calls(&ALL) - all);
    println!("{beats} keep-alives, {all} requests in {QUIET:?}");
    // However many locks there are: locks that were acquired at different times are due at different times,
    // and one keep-alive serves all that are due within a twelfth of the ttl. Every second keep-alive checks
    // the keys.
    assert!((2..=17).contains(&beats), "{beats} keep-alives in {QUIET:?}");
    assert!(all <= beats + beats / 2 + 1, "{all} requests in {QUIET:?}, {beats} of them keep-alives");
    assert!(guards.iter().all(|guard| guard.is_certain()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_locks_on_zookeeper_are_kept_by_one_session() {
    let server = ZooKeeperServer::start(ZooKeeperOptions::default());
    let meter = ZooKeeperMeter::to(server.members()[0].address());
    let url = format!("zookeeper://{}?session-ttl=6s", meter.address());
    let client = latchwork::connect(&url).await.expect("the process runs");
    let guards = hold_all(&client, TTL).await;
    until_renewed(&guards).await;
    let (clock, signs, others) = (Clock::boottime(), meter.signs(), meter.others());
    let began = clock.now();
    tokio::time::sleep(QUIET).await;
    let (signs, others, counted) = (meter.signs() - signs, meter.others() - others, clock.now().since(began));
    println!("{signs} signs of life, {others} other requests in {counted:?}");
    // One in an eighth of the session. On a busy machine some come a little later.
    let due = counted.as_millis() as u64 * 8 / TTL.as_millis() as u64;
    assert!((due / 2..=due + 2).contains(&signs), "{signs} heartbeats in {counted:?}");
    assert_eq!((others, meter.sessions()), (0, 1));
    assert!(guards.iter().all(|guard| guard.is_certain()));
}
