//! The exact time of a loss, to the millisecond of tokio's timers, under paused time on a network with known
//! latencies.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::Engine;
use latchwork::engines::Memory;
use latchwork::{Client, Loss};
use testkit::network::simulated::{Conditions, Network, RemoteEngine};

const TTL: Duration = Duration::from_secs(10);
const REQUEST: Duration = Duration::from_millis(700);
const REPLY: Duration = Duration::from_millis(900);
/// A lease of 10 s counts from before its request was sent, less 1 % and 2 ms of drift, less a tenth of the
/// rest.
const STOP_AFTER: Duration = Duration::from_micros((10_000_000 - 100_000 - 2_000) / 10 * 9);
/// The resolution of tokio's timers.
const TICK: Duration = Duration::from_millis(1);

struct Setting {
    client: Client,
    network: Network,
    clock: Clock,
}

fn setting() -> Setting {
    let memory = Memory::new();
    let (clock, network) = (memory.clock(), Network::new(1, memory.clock()));
    network.set(slow());
    Setting { client: Client::new(RemoteEngine::new(memory, &network)), network, clock }
}

fn slow() -> Conditions {
    Conditions { request: REQUEST..=REQUEST, reply: REPLY..=REPLY, ..Conditions::calm() }
}

fn dead() -> Conditions {
    Conditions { refused: 100, ..slow() }
}

/// Fails if the deadline counts from the reply (1.6 s later), or without the stop margin (almost 1 s later).
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_renewed_is_lost_at_its_deadline_and_not_before() {
    let Setting { client, network, clock } = setting();
    let sent = clock.now();
    let guard = client.lock("a").ttl(TTL).acquire().await.expect("free");
    assert_eq!(clock.now().since(sent), REQUEST + REPLY);
    network.set(dead());
    assert_eq!(guard.lost().await, Loss::Unreachable);
    let told = clock.now().since(sent);
    assert!(told >= STOP_AFTER && told <= STOP_AFTER + TICK, "{told:?} instead of {STOP_AFTER:?}");
    assert!(guard.lease_end() > clock.now(), "before the lease could run out");
}

/// After a renewal the lease counts from when the renewal was sent, not from when it was answered.
#[tokio::test(start_paused = true)]
async fn a_renewed_lock_is_lost_at_the_deadline_of_its_last_renewal() {
    let Setting { client, network, clock } = setting();
    let guard = client.lock("a").ttl(TTL).acquire().await.expect("free");
    let first = guard.lease_end();
    while guard.lease_end() == first {
        tokio::time::sleep(TICK).await;
    }
    let answered = clock.now();
    network.set(dead());
    assert_eq!(guard.lost().await, Loss::Unreachable);
    let (told, expected) = (clock.now().since(answered), STOP_AFTER - REQUEST - REPLY);
    assert!(told <= expected && told + TICK * 3 >= expected, "{told:?} instead of {expected:?}");
}

/// Fails if a retry sleeps past the deadline: the engine is back with time to spare.
#[tokio::test(start_paused = true)]
async fn an_engine_that_comes_back_shortly_before_the_deadline_keeps_the_lock() {
    let Setting { client, network, clock } = setting();
    let guard = client.lock("a").ttl(TTL).acquire().await.expect("free");
    network.set(dead());
    let stop = guard.lease_end().before(TTL / 10);
    clock.sleep_until(stop.before(Duration::from_secs(2))).await;
    assert!(guard.is_certain());
    network.set(Conditions::calm());
    let told = tokio::time::timeout(TTL * 5, guard.lost()).await;
    assert!(told.is_err() && guard.is_certain(), "{told:?}");
    guard.release().await.expect("the lock was held all along");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_not_a_loss() {
    let Setting { client, network, .. } = setting();
    let guard = client.lock("a").ttl(TTL).acquire().await.expect("free");
    let held = guard.held();
    let told = tokio::spawn(async move { held.lost().await });
    tokio::time::sleep(TTL * 2).await;
    guard.release().await.expect("held");
    network.set(dead());
    tokio::time::sleep(TTL * 10).await;
    assert!(!told.is_finished());
}
