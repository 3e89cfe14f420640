//! The server's wall clock is set.

use latchwork::Loss;
use testkit::history::Fault;
use testkit::servers::RedisOptions;
use testkit::shim::Clocks;
use testkit::store::Written;
use testkit::workload::contenders::TTL;

use super::harness::{LOCK, LONG, RedisHarness, SOON, now, take, wait_for_loss, wait_for_renewal};

const HOUR: i64 = 3_600_000;

fn harness(clocks: &Clocks) -> RedisHarness {
    RedisHarness::with(RedisOptions { clocks: Some(clocks), ..Default::default() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_forwards_ends_leases_early_and_the_store_refuses_unaware_holders() {
    let clocks = Clocks::new();
    let harness = harness(&clocks);
    let clients = harness.clients(3).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    let lock = clients[1].lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&clients[2], 1).await;
    harness.inject(Fault::ClockStep, || clocks.move_wall(HOUR));
    let moved = now();
    let next = waiting.await.expect("no panic");
    println!("another had it {:?} after the step", now().since(moved));
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    let told = now().since(moved);
    assert!(told < TTL, "told {told:?} after the step, and not at the next renewal");
    drop(guard);
    let before = next.token().unwrap();
    next.release().await.expect("held");
    // And back: the newest token is from a time in the future.
    harness.inject(Fault::ClockStep, || clocks.move_wall(0));
    let last = take(&clients[2].lock(LOCK).ttl(TTL)).await;
    assert!(last.token().unwrap() > before, "tokens went back with the clock");
    assert_eq!(store.write(last.token().unwrap(), "last"), Written::Accepted);
    last.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_back_costs_no_client_a_lock_or_a_turn_and_tokens_still_rise() {
    let clocks = Clocks::new();
    let harness = harness(&clocks);
    let clients = harness.clients(4).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut newest = guard.token().unwrap();
    let mut waiting = Vec::new();
    for (number, client) in clients[1..3].iter().enumerate() {
        let lock = client.lock(LOCK).ttl(LONG);
        waiting.push(tokio::spawn(async move { take(&lock).await }));
        harness.wait_for_waiters(&clients[3], number + 1).await;
    }
    harness.inject(Fault::ClockStep, || clocks.move_wall(-HOUR));
    wait_for_renewal(&guard).await;
    wait_for_renewal(&guard).await;
    assert!(guard.is_certain());
    let free_in = harness.free_in();
    assert!((0..=TTL.as_millis() as i64).contains(&free_in), "a renewal sets the lease right: {free_in} ms");
    harness.wait_for_waiters(&clients[3], 2).await;
    guard.release().await.expect("held");
    for waiter in waiting {
        let guard = waiter.await.expect("no panic");
        assert!(guard.token().unwrap() > newest, "tokens went back with the clock");
        newest = guard.token().unwrap();
        guard.release().await.expect("held");
    }
    let last = take(&clients[3].lock(LOCK)).await;
    assert!(last.token().unwrap() > newest);
    last.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}

/// The queue entries of dead waiters carry the clock they died under: they must not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_queue_entries_are_skipped_after_the_clock_was_set_back_by_an_hour() {
    let clocks = Clocks::new();
    let harness = harness(&clocks);
    let client = harness.client().await;
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    let mut dead =
        testkit::worker_process::WorkerProcess::start(&["hold", &harness.direct_url(""), LOCK, "30000"]);
    assert_eq!(dead.line().await, "started");
    harness.wait_for_waiters(&client, 1).await;
    dead.kill().await;
    // A server that has not seen its disconnection yet would give it the lock, and for that hour.
    harness.until_listening(1).await;
    harness.inject(Fault::ClockStep, || clocks.move_wall(-HOUR));
    guard.release().await.expect("held");
    take(&client.lock(LOCK)).await.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
