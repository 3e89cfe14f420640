//! Holders and waiters whose processes are killed: they neither release nor listen.

use std::time::Duration;

use testkit::worker_process::WorkerProcess;

use super::harness::{LOCK, LONG, RedisHarness, SOON, now, take};

/// How long a killed holder blocks others. On a machine that stalls for half a second the lock is not lost
/// before.
const TTL: Duration = Duration::from_secs(2);

/// A process that holds the lock, and others that wait for it in this order, whose queue entries outlive its
/// lease.
async fn processes(harness: &RedisHarness, waiters: usize) -> Vec<WorkerProcess> {
    let (url, witness) = (harness.direct_url(""), harness.client().await);
    let [short, long] = [TTL, LONG].map(|ttl| ttl.as_millis().to_string());
    let mut workers = Vec::new();
    for number in 0..=waiters {
        workers.push(WorkerProcess::start(&["hold", &url, LOCK, if number == 0 { &short } else { &long }]));
        assert_eq!(workers[number].line().await, "started");
        match number {
            0 => assert!(workers[0].line().await.starts_with("held ")),
            _ => harness.wait_for_waiters(&witness, number).await,
        }
    }
    workers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_behind_a_killed_holder_and_killed_waiters_gets_the_lock_and_leaves_a_clean_queue() {
    let harness = RedisHarness::new();
    let (client, other) = (harness.client().await, harness.client().await);
    let mut workers = processes(&harness, 2).await;
    let lock = client.lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&other, 3).await;
    for worker in &mut workers {
        worker.kill().await;
    }
    let killed = now();
    let guard = waiting.await.expect("no panic");
    let waited = now().since(killed);
    println!("had it {waited:?} after holder and waiters were killed");
    assert!(waited < TTL + Duration::from_secs(4), "{waited:?}");
    guard.release().await.expect("held");
    let next = other.lock(LOCK).ttl(LONG).try_acquire().await.expect("an answer");
    next.expect("the lock was released and has no waiters").release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_is_not_excluded_by_dead_waiters() {
    let harness = RedisHarness::new();
    let client = harness.client().await;
    let mut workers = processes(&harness, 2).await;
    for worker in &mut workers {
        worker.kill().await;
    }
    let killed = now();
    let lock = client.lock(LOCK).ttl(LONG);
    let guard = loop {
        match lock.try_acquire().await.expect("an answer") {
            Some(guard) => break guard,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let waited = now().since(killed);
    println!("had it {waited:?} after holder and waiters were killed");
    assert!(waited < TTL + Duration::from_secs(2), "dead waiters kept it for {waited:?}");
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
