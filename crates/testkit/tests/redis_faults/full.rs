//! The server has no memory left, and refuses to evict.

use latchwork::{Effect, ErrorKind};
use testkit::history::Fault;
use testkit::workload::contenders::TTL;

use super::harness::{ANSWERED, LOCK, LONG, RedisHarness, SOON, pause, take, wait_for_renewal};

/// Makes the server refuse everything that needs memory, or accept it again.
fn set_full(harness: &RedisHarness, full: bool) {
    let bytes = if full { "1" } else { "0" };
    assert!(harness.server.command(&["CONFIG", "SET", "maxmemory", bytes]).is("OK"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_fails_with_the_setting_in_its_error_and_without_effect() {
    let harness = RedisHarness::new();
    let client = harness.client().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    set_full(&harness, true);
    for lock in [client.lock(LOCK), client.lock(LOCK).wait(ANSWERED)] {
        let error = lock.try_acquire().await.expect_err("no room");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
        let error = lock.wait(ANSWERED).acquire().await.expect_err("no room");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    let newcomer = harness.client().await;
    newcomer.lock(LOCK).try_acquire().await.expect_err("a new claim finds no room either");
    set_full(&harness, false);
    take(&client.lock(LOCK)).await.release().await.expect("held");
    harness.judge(&[client, newcomer], SOON).await;
}

/// For longer than any queue entry lasts by itself. One client waits for two locks, the other for one: their
/// heartbeats are sent in different ways.
async fn waiters_are_served_without_memory(options: &str) {
    let harness = RedisHarness::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(harness.connect(&harness.url(options)).await);
    }
    let mut held = Vec::new();
    for lock in [LOCK, "second"] {
        held.push(take(&clients[0].lock(lock).ttl(TTL)).await);
    }
    let mut waiting = Vec::new();
    for (client, lock) in [(1, "second"), (1, LOCK), (2, LOCK)] {
        let lock = clients[client].lock(lock).ttl(TTL).wait(LONG);
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        harness.wait_for_waiters(&clients[0], waiting.len().saturating_sub(1)).await;
    }
    harness.recorder.fault_began(Fault::Trouble);
    set_full(&harness, true);
    pause(3_500).await;
    for guard in held {
        wait_for_renewal(&guard).await;
        guard.release().await.expect("held");
    }
    for waiter in waiting {
        let guard = tokio::time::timeout(SOON, waiter).await.expect("granted in the order of arrival");
        let guard = guard.expect("no panic").expect("the lock was handed over");
        wait_for_renewal(&guard).await;
        guard.release().await.expect("held");
    }
    set_full(&harness, false);
    harness.recorder.fault_ended(Fault::Trouble);
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_is_renewed_and_handed_over_and_released_during_a_long_memory_shortage() {
    waiters_are_served_without_memory("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_of_the_older_scheme_survives_a_long_memory_shortage() {
    waiters_are_served_without_memory("scheme=setnx").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_just_before_memory_runs_out_is_found_to_be_held() {
    let harness = RedisHarness::new();
    let client = harness.client().await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_reply_to(LOCK.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_a_lost_reply().await;
    set_full(&harness, true);
    let guard = claiming.await.expect("no panic");
    harness.recorder.fault_ended(Fault::Partition);
    assert_eq!(guard.token().unwrap().engine_token(), harness.newest_token());
    guard.release().await.expect("held");
    set_full(&harness, false);
    harness.judge(&[client], SOON).await;
}
