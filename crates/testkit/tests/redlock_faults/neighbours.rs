//! Beside another Redlock client on the same masters: crate rslock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rslock::{LockError, LockManager};

use super::harness::{LOCK, LONG, RedlockHarness, SOON, pause, take};

const OPTIONS: &str = "quarantine=off&node-timeout=200ms";

fn rslock(harness: &RedlockHarness) -> LockManager {
    let urls = harness.masters.iter().map(|master| format!("redis://{}/", master.address())).collect();
    let mut manager = LockManager::new::<String>(urls);
    manager.set_retry(3, Duration::from_millis(10));
    manager
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_redlock_client_excludes_the_other_and_leaves_its_key_alone() {
    let harness = RedlockHarness::new();
    let (client, theirs) = (harness.client(OPTIONS).await, rslock(&harness));
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.until_keys(LOCK, 5, SOON).await;
    assert!(matches!(theirs.lock(LOCK, LONG).await, Err(LockError::Unavailable)), "our client holds");
    assert_eq!(harness.keys(LOCK), 5, "rslock changed nothing");
    guard.release().await.expect("held");
    harness.until_keys(LOCK, 0, SOON).await;

    let lock = theirs.lock(LOCK, LONG).await.expect("free");
    assert!(client.lock(LOCK).try_acquire().await.expect("a majority answers").is_none(), "rslock holds");
    assert_eq!(harness.keys(LOCK), 5, "our client changed nothing");
    lock.release().await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    harness.judge(&[client]).await;
}

/// A counter that only one task may touch at a time.
#[derive(Default)]
struct Counter {
    is_used: AtomicBool,
    turns: AtomicU32,
}

impl Counter {
    async fn use_it(&self) {
        assert!(!self.is_used.swap(true, Ordering::SeqCst), "two hold");
        pause(1).await;
        self.turns.fetch_add(1, Ordering::Relaxed);
        assert!(self.is_used.swap(false, Ordering::SeqCst), "two hold");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_redlock_clients_take_turns_and_never_hold_at_once() {
    const EACH: u32 = 15;
    let (harness, counter) = (RedlockHarness::new(), Arc::<Counter>::default());
    let mut tasks = tokio::task::JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let (client, counter) = (harness.client(OPTIONS).await, counter.clone());
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        clients.push(client);
        tasks.spawn(async move {
            for _ in 0..EACH {
                let guard = lock.acquire().await.expect("its turn comes");
                counter.use_it().await;
                guard.release().await.expect("held");
            }
        });
    }
    for _ in 0..3 {
        let (theirs, counter) = (rslock(&harness), counter.clone());
        tasks.spawn(async move {
            for _ in 0..EACH {
                let guard = theirs.acquire(LOCK, LONG).await.expect("its turn comes");
                counter.use_it().await;
                guard.release().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    assert_eq!(counter.turns.load(Ordering::Relaxed), 6 * EACH);
    harness.judge(&clients).await;
}
