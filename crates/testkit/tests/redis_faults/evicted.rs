//! The server has no memory left, and evicts any key, locks included.

use latchwork::Loss;
use testkit::history::Fault;
use testkit::servers::RedisOptions;
use testkit::store::Written;
use testkit::workload::contenders::TTL;

use super::harness::{LOCK, RedisHarness, SOON, now, take, wait_for_loss};

fn evicting(policy: &str) -> RedisOptions<'static> {
    let config = [("maxmemory", "4mb"), ("maxmemory-policy", policy)];
    let config = config.map(|(key, value)| (key.to_owned(), value.to_owned()));
    RedisOptions { config: config.to_vec(), ..Default::default() }
}

/// Stores other data until the lock is gone.
fn fill(harness: &RedisHarness) {
    let value = "x".repeat(10_000);
    for number in 0..100_000 {
        harness.server.command(&["SET", &format!("filler:{number}"), &value]);
        if harness.free_in() == -2 {
            println!("evicted by the {number}th filler");
            return;
        }
    }
    panic!("it was never evicted");
}

/// Frees the memory again.
fn empty(harness: &RedisHarness) {
    harness.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let clear = "for _, key in ipairs(redis.call('KEYS', 'filler:*')) do redis.call('DEL', key) end";
    harness.server.command(&["EVAL", clear, "0"]);
}

async fn lock_evicted_under(policy: &str) {
    let harness = RedisHarness::with(evicting(policy));
    let clients = harness.clients(2).await;
    let warnings = clients[0].client().guarantees().warnings;
    assert!(warnings.iter().any(|warning| warning.contains(policy)), "{policy} in {warnings:?}");
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    harness.inject(Fault::DataDeleted, || fill(&harness));
    let (evicted, lease_end) = (now(), guard.lease_end());
    empty(&harness);
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    let told = now().since(evicted);
    // On a machine that stalls, a renewal is late. But it is the next renewal, and comes before the lease
    // ends.
    assert!(told < TTL && guard.lease_end() == lease_end, "told {told:?} after the eviction");
    let next = take(&clients[1].lock(LOCK).ttl(TTL)).await;
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    drop(guard);
    next.release().await.expect("held");
    assert_eq!(harness.judge(&clients, SOON).await.excused(), 1, "only holds under the fault");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_expiring_keys_causes_a_warning_and_its_holder_is_told() {
    lock_evicted_under("volatile-lru").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_random_keys_causes_a_warning_and_its_holder_is_told() {
    lock_evicted_under("allkeys-random").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_evicts_causes_no_warning() {
    for options in [evicting("noeviction"), RedisOptions::default()] {
        let harness = RedisHarness::with(options);
        let warnings = harness.client().await.client().guarantees().warnings;
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}
