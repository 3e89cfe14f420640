//! The wall clock of one master is set.

use std::time::Duration;

use testkit::history::Fault;
use testkit::servers::RedisOptions;
use testkit::shim::Clocks;
use testkit::workload::contenders::{Contenders, TTL};

use super::harness::{LOCK, RedlockHarness, pause, take};

const OPTIONS: &str = "quarantine=off&node-timeout=200ms";
const HOUR: i64 = 3_600_000;

/// By an hour, ahead and back again and behind, while three clients take turns: each time its key expires or
/// seems to last, and its answers to proposals change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_stay_unique_and_rising_when_one_clock_is_set() {
    let clocks = Clocks::new();
    let harness = RedlockHarness::with(|at| RedisOptions {
        clocks: (at == 2).then_some(&clocks),
        ..Default::default()
    });
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(harness.client(OPTIONS).await);
    }
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(2));
    for offset in [HOUR, 0, -HOUR, -2 * HOUR, 0, HOUR] {
        pause(400).await;
        contenders.wait_for_holds(9).await;
        harness.inject(Fault::ClockStep, || clocks.move_wall(offset));
    }
    let tally = contenders.stop().await;
    println!("{tally:?}");
    assert_eq!((tally.refused, tally.errors.len()), (0, 0), "{tally:?}");
    assert!(tally.holds > 50, "{tally:?}");

    // With a quorum of three, including this master, no majority can do without it.
    let before = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let token = before.token().expect("certain");
    before.release().await.expect("held");
    harness.masters[3].pause();
    harness.masters[4].pause();
    for offset in [-2 * HOUR, 2 * HOUR] {
        clocks.move_wall(offset);
        let after = take(&clients[1].lock(LOCK).ttl(TTL)).await;
        assert!(after.token().expect("certain") > token, "tokens went back with the clock");
        after.release().await.expect("held");
    }
    harness.masters[3..].iter().for_each(|master| master.resume());
    let judged = harness.judge(&clients).await;
    println!("{} holds judged, {} excused", judged.exclusive(), judged.excused());
}
