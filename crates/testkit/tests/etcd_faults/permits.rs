//! Permits: their cost for the server, clients with another number of permits, and `etcdctl lock` beside
//! them.

use std::time::Duration;

use latchwork::engine::Mode;
use latchwork::{ErrorKind, Lock};
use testkit::history::{RecordedClient, RecordedGuard};
use testkit::servers::EtcdServer;
use tokio::task::JoinSet;

use super::beside_etcdctl::EtcdctlLock;
use super::harness::{EtcdHarness, LOCK, LONG, SOON, connect, pause, take};

const OF: u32 = 2;

async fn permit(client: &RecordedClient) -> RecordedGuard {
    take(&client.shared_lock(LOCK, Mode::Permit { of: OF }).ttl(LONG)).await
}

/// The requests for a returned permit, with this many waiters in as many clients.
async fn requests_per_release(waiters: usize) -> u64 {
    let harness = EtcdHarness::one();
    let calls = || harness.servers.calls(&["Txn", "Range", "Put", "DeleteRange"]);
    let client = harness.direct_client().await;
    let mut held = vec![permit(&client).await, permit(&client).await];
    let mut tasks = JoinSet::new();
    let mut clients = vec![client];
    for number in 0..waiters {
        let next = harness.direct_client().await;
        clients.push(next.clone());
        // Its turn comes when all the others are behind it, however long that takes.
        let permit = next.shared_lock(LOCK, Mode::Permit { of: OF }).ttl(LONG).wait(10 * LONG);
        tasks.spawn(async move { permit.acquire().await.expect("its turn comes") });
        harness.until_keys(held.len() + number + 1).await;
    }
    let settled = async || loop {
        let before = calls();
        pause(200).await;
        if calls() == before {
            return before;
        }
    };
    let (mut most, mut before) = (0, settled().await);
    for _ in 0..4 {
        // First the newest, which is among the nearest for the greatest number of waiters; then the oldest.
        held.pop().expect("two are out").release().await.expect("held");
        let next = tokio::time::timeout(SOON, tasks.join_next())
            .await
            .expect("the waiter is granted the lock")
            .expect("one waits");
        held.insert(0, next.expect("no panic"));
        let now = settled().await;
        most = most.max(now - before);
        before = now;
    }
    drop(held);
    while let Some(next) = tasks.join_next().await {
        next.expect("no panic").release().await.expect("held");
    }
    harness.judge(&clients, 10 * SOON).await;
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returned_permit_costs_the_same_for_any_number_of_waiters() {
    let (few, many) = (requests_per_release(5).await, requests_per_release(25).await);
    println!("at most {few} requests per release with 5 waiters, {many} with 25");
    // As many waiters wake as there are permits; each lists, watches, and lists again.
    let most = 1 + 3 * u64::from(OF) + 2;
    assert!(few <= most && many <= most, "{few} and {many}, more than {most}");
}

/// Clients with another number of permits come and go all the time and are refused; no other client is
/// refused because of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_another_number_of_permits_blocks_no_other() {
    let harness = EtcdHarness::one();
    let keeper = connect(&harness.direct_url()).await;
    let mut tasks = JoinSet::new();
    let visits = async |lock: Lock, rounds: usize| {
        let mut refused = 0;
        for _ in 0..rounds {
            match lock.acquire().await {
                Ok(guard) => guard.release().await.expect("held"),
                Err(error) if error.kind() == ErrorKind::Invalid => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        refused
    };
    // One permit is always held, so that one number is the right one.
    let held = keeper.semaphore(LOCK, 3).acquire().await.expect("free");
    for client in 0..4 {
        let of = [3, 4][client % 2];
        let lock = connect(&harness.direct_url()).await.semaphore(LOCK, of).wait(LONG);
        tasks.spawn(async move { (of, visits(lock, 50).await) });
    }
    for (of, refused) in tasks.join_all().await {
        assert_eq!(refused, if of == 3 { 0 } else { 50 }, "of {of}");
    }
    held.release().await.expect("held");
    assert_eq!(harness.keys(), Vec::<String>::new());
}

/// A lock whose name looks like the keys of permits is only a lock, and blocks no permit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_named_like_a_permit_is_unrelated() {
    let harness = EtcdHarness::one();
    let client = connect(&harness.direct_url()).await;
    let mut held = Vec::new();
    for name in ["0", "00000000003-7f", "0p", "0000000004-7f-x", "1", "f"] {
        let below = client.lock(format!("{LOCK}/{name}")).wait(Duration::ZERO);
        held.push(below.acquire().await.expect("free"));
    }
    let permits = client.semaphore(LOCK, 2).wait(Duration::ZERO);
    let (one, two) = (permits.acquire().await.expect("one"), permits.acquire().await.expect("two"));
    assert!(permits.try_acquire().await.expect("answers").is_none());
    for guard in held.into_iter().chain([one, two]) {
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_waits_for_every_permit_and_permits_for_etcdctl() {
    let harness: EtcdHarness<EtcdServer> = EtcdHarness::one();
    let client = harness.client().await;
    let (one, two) = (permit(&client).await, permit(&client).await);
    let mut theirs = EtcdctlLock::start(&harness, LOCK);
    harness.until_keys(3).await;
    one.release().await.expect("held");
    assert!(theirs.waits().await, "a permit is held");
    let behind = client.shared_lock(LOCK, Mode::Permit { of: OF }).ttl(LONG).wait(10 * LONG);
    assert!(behind.try_acquire().await.expect("an answer").is_none(), "past the waiter");
    two.release().await.expect("held");
    theirs.held().await;
    let waiting = tokio::spawn(async move { behind.acquire().await.expect("its turn comes") });
    harness.until_keys(2).await;
    pause(100).await;
    assert!(!waiting.is_finished(), "etcdctl has the lock");
    theirs.release().await;
    let guard = tokio::time::timeout(SOON, waiting).await.expect("woken").expect("no panic");
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
