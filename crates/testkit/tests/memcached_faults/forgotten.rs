//! The server loses data while it runs: it is flushed, or out of memory. No guarantee covers this.

use std::fmt::Write as _;

use latchwork::{ErrorKind, Loss, Promise};
use testkit::history::Fault;
use testkit::workload::contenders::TTL;

use super::harness::{LOCK, LONG, MemcachedHarness, SOON, take, wait_for_loss};

/// A lock whose key is as long as those of the fillers: memcached groups items by size.
const SELDOM: &str = "seldom-used";

/// More items than fit into two megabytes, in the slab of the locks, and without replies.
fn fillers(length: usize) -> String {
    let (value, mut fillers) = ("x".repeat(length), String::new());
    for number in 0..60_000 {
        write!(fillers, "ms filler{number:05} {length} T0 q\r\n{value}\r\n").expect("a string");
    }
    fillers + "mn"
}

/// The length of a lock's value.
fn value_length(harness: &MemcachedHarness, lock: &str) -> usize {
    let item = harness.server.item(lock).expect("the server accepts the connection");
    item.split(' ').nth(1).and_then(|length| length.parse().ok()).expect("a length")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_lock_has_two_holders_until_the_first_is_told_at_its_next_renewal() {
    let harness = MemcachedHarness::new();
    let clients = [harness.client().await, harness.client().await];
    assert_eq!(clients[0].client().guarantees().faults.data_deleted, Promise::Breaks);
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let short = take(&clients[0].lock("short").ttl(TTL)).await;
    harness.inject(Fault::DataDeleted, || harness.server.flush());
    let next = take(&clients[1].lock(LOCK).ttl(LONG)).await;
    assert!(guard.is_certain() && next.is_certain(), "the case that is not guaranteed");
    assert_eq!(wait_for_loss(&short).await, Loss::Removed);
    drop((guard, short));
    next.release().await.expect("the former holder's release took nothing from it");
    assert_eq!(harness.judge(&clients, SOON).await.excused(), 2, "only holds under the fault");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_is_evicted_by_items_of_its_size_and_later_clients_are_warned() {
    let harness = MemcachedHarness::with(&["-m", "2"]);
    let client = harness.client().await;
    assert!(client.client().guarantees().warnings.is_empty());
    let held = take(&client.lock(SELDOM).ttl(LONG)).await;
    let fillers = fillers(value_length(&harness, SELDOM));
    // A read of the item would protect it from eviction for a while.
    harness.inject(Fault::DataDeleted, || {
        let filled = |_| {
            harness.server.command(&fillers);
            harness.server.item(SELDOM).is_none()
        };
        assert!((0..10).any(filled), "it was never evicted");
    });
    assert!(harness.server.stat("evictions") > 0);
    let rival = harness.direct_client().await;
    let warnings = rival.client().guarantees().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("evicted"), "{warnings:?}");
    let next = take(&rival.lock(SELDOM).ttl(LONG)).await;
    assert!(held.is_certain() && next.is_certain(), "the case that is not guaranteed");
    drop(held);
    next.release().await.expect("the former holder's release took nothing from it");
    harness.judge(&[client, rival], SOON).await;
}

/// A server that must not evict (`-M`) refuses to store when its memory is full, and deletes the item that it
/// was to replace: even the item that an `add` would have found there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rival_on_a_full_server_without_eviction_does_not_delete_the_lock_by_claiming_it() {
    let harness = MemcachedHarness::with(&["-m", "2", "-M"]);
    let (client, rival) = (harness.client().await, harness.direct_client().await);
    let warnings = client.client().guarantees().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("-M"), "{warnings:?}");
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.server.command(&fillers(value_length(&harness, LOCK)));
    for _ in 0..3 {
        assert!(rival.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    }
    let error = rival.lock("another").try_acquire().await.expect_err("the item does not fit");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("out of memory"), "{error}");
    assert!(guard.is_certain() && harness.server.item(LOCK).is_some());
    let length = value_length(&harness, LOCK);
    let blunt = format!("ms {LOCK} {length} ME T30\r\n{}", "x".repeat(length));
    let refused = harness.inject(Fault::DataDeleted, || harness.server.command(&blunt));
    assert!(
        refused.starts_with("SERVER_ERROR") && harness.server.item(LOCK).is_none(),
        "the hazard: {refused}"
    );
    drop(guard);
    harness.judge(&[client, rival], SOON).await;
}
