//! A server that counts whole seconds, and keeps leases for no less than was promised.

use std::time::Duration;

use latchwork::clock::random_bytes;
use latchwork::engine::{Engine, Filter};

use super::harness::{LOCK, LONG, MemcachedHarness, SOON, claim, engine, granted, now, pause, take};

const LEASES: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_leases_of_any_phase_and_length_last_as_long_as_promised() {
    let harness = MemcachedHarness::new();
    let engine = engine(&harness.direct_url("")).await;
    let lease = |number: usize| {
        let engine = engine.clone();
        let [phase, length] = random_bytes::<2>().map(u64::from);
        async move {
            pause(phase * 6).await;
            let claim = claim(&format!("lease/{number}"), Duration::from_millis(100 + length * 6));
            let ends = now().after(claim.ttl);
            granted(&engine, &claim).await;
            let filter = Filter::Name(claim.name.clone());
            let mut looks = 0;
            // Every read before the lease's end must find it: the last of these is a few milliseconds before
            // that.
            while now() < ends {
                let found = engine.inspect(&filter).await.expect("an answer");
                if now() < ends {
                    assert!(!found.is_empty(), "gone {:?} before its end", ends.since(now()));
                    looks += 1;
                }
                let left = ends.since(now());
                tokio::time::sleep((left / 2).max(Duration::from_millis(3))).await;
            }
            looks
        }
    };
    let leases: Vec<_> = (0..LEASES).map(|number| tokio::spawn(lease(number))).collect();
    let mut looks = 0;
    for lease in leases {
        looks += lease.await.expect("the lease lasts");
    }
    assert!(looks > 2 * LEASES, "only {looks} reads in time");
}

/// A client is killed: its lock becomes free by itself, not before its ttl and soon after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unrenewed_lock_becomes_free_within_two_seconds_of_its_ttl_in_whole_seconds() {
    let harness = MemcachedHarness::new();
    let engine = engine(&harness.direct_url("")).await;
    let ttl = Duration::from_millis(1_200);
    let begun = now();
    granted(&engine, &claim(LOCK, ttl)).await;
    let next = harness.direct_client().await;
    let guard = take(&next.lock(LOCK).ttl(LONG)).await;
    let waited = now().since(begun);
    println!("free after {waited:?}");
    assert!(waited >= ttl, "free after {waited:?}");
    guard.release().await.expect("held");
    harness.judge(&[next], SOON).await;
}
