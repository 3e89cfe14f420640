//! Leases of holders and waiters are revoked.

use std::time::Duration;

use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::store::Written;
use testkit::worker_process::WorkerProcess;

use super::harness::{
    ClusterHarness, EtcdHarness, LOCK, LONG, SOON, now, pause, take, wait_for_loss, wait_for_renewal,
};

/// A sixth of it is much longer than "at once", even on a machine that stalls for half a second.
const TTL: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_is_revoked_is_told_at_once_and_refused_by_the_store() {
    let harness = EtcdHarness::one();
    let clients = harness.clients(2).await;
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let (old, mut store) = (guard.token().expect("certain"), harness.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    wait_for_renewal(&guard).await;
    let mut queue = harness.enqueue(&clients[1..], LONG).await;
    let own = harness.keys().remove(0);
    harness.recorder.fault_began(Fault::DataDeleted);
    harness.revoke_lease_of(&own);
    let revoked = now();
    let loss = wait_for_loss(&guard).await;
    println!("told {loss:?} after {:?}", now().since(revoked));
    assert!(matches!(loss, Loss::Removed | Loss::SessionEnded), "{loss:?}");
    assert!(now().since(revoked) < TTL / 6, "told by the next keep-alive, not at once");
    let next = queue.take_first().await.expect("no panic").expect("its turn comes");
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert!(next.token().expect("certain") > old);
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    let error = guard.release().await.expect_err("the lock was lost");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(next.is_certain() && harness.keys().len() == 1, "the release did no harm");
    next.release().await.expect("held");
    // The client continues under a new lease.
    take(&clients[0].lock(LOCK).ttl(TTL)).await.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}

/// Its predecessor still holds: neither the loss of its own key nor the front of the queue makes it a holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_lease_is_revoked_queues_again_and_is_granted_the_lock() {
    let harness = EtcdHarness::one();
    let clients = harness.clients(4).await;
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let mut queue = harness.enqueue(&clients[1..], LONG).await;
    let before = harness.keys();
    harness.recorder.fault_began(Fault::DataDeleted);
    // The one in the middle: its successor must not believe that it holds.
    harness.revoke_lease_of(&before[2]);
    let after = loop {
        let keys = harness.until_keys(4).await;
        if keys != before {
            break keys;
        }
    };
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert_eq!(after[..3], [&before[..2], &before[3..]].concat(), "the others keep their places");
    pause(200).await;
    assert!(queue.all_waiting() && guard.is_certain(), "no waiter believes that it holds");
    let (first, second, third) = (queue.take_first(), queue.take_first(), queue.take_first());
    let served = async |waiter: tokio::task::JoinHandle<latchwork::Result<_>>| {
        let guard = tokio::time::timeout(SOON, waiter)
            .await
            .expect("the waiter is granted the lock")
            .expect("no panic");
        let guard: testkit::history::RecordedGuard = guard.expect("its turn comes");
        guard.token().map(|token| (token, guard)).expect("certain")
    };
    guard.release().await.expect("held");
    let mut tokens = Vec::new();
    // The waiter that lost its place comes last.
    for waiter in [first, third, second] {
        let (token, guard) = served(waiter).await;
        tokens.push(token);
        guard.release().await.expect("held");
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
    harness.judge(&clients, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_dies_in_the_middle_of_the_queue_does_not_promote_its_successor() {
    let harness = EtcdHarness::one();
    let clients = harness.clients(2).await;
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let url = harness.direct_url();
    let mut doomed = WorkerProcess::start(&["hold", &url, LOCK, "2000"]);
    harness.until_keys(2).await;
    let lock = clients[1].lock(LOCK).ttl(LONG).wait(LONG);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    let before = harness.until_keys(3).await;
    doomed.kill().await;
    let after = harness.until_keys(2).await;
    assert_eq!(after, [before[0].clone(), before[2].clone()], "the dead waiter's key is gone");
    // Any effect of its loss on the waiter behind it would show by now.
    pause(300).await;
    assert!(!waiter.is_finished() && guard.is_certain(), "the waiter does not hold");
    guard.release().await.expect("held");
    let next =
        tokio::time::timeout(SOON, waiter).await.expect("the waiter is granted the lock").expect("no panic");
    next.expect("its turn comes").release().await.expect("held");
    harness.judge(&clients, SOON).await;
}

/// A deleted key has the same effect as a lease that ended; so has a key that another client wrote again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_key_is_deleted_is_told_at_once() {
    let harness = EtcdHarness::one();
    let client = harness.client().await;
    for is_written_again in [false, true] {
        let guard = take(&client.lock(LOCK).ttl(TTL)).await;
        wait_for_renewal(&guard).await;
        let key = harness.keys().remove(0);
        harness.recorder.fault_began(Fault::DataDeleted);
        harness.etcdctl(&["del", &key]);
        if is_written_again {
            harness.etcdctl(&["put", &format!("--lease={}", super::harness::lease_of(&key)), &key, "forged"]);
        }
        assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
        harness.recorder.fault_ended(Fault::DataDeleted);
        drop(guard);
        client.client().close().await.expect("released");
        harness.until_keys(0).await;
    }
    harness.judge(&[client], SOON).await;
}
