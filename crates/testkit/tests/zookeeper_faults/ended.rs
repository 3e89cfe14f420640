//! Sessions of holders and waiters end.

use std::time::Duration;

use latchwork::{ErrorKind, Loss};
use testkit::history::{Fault, RecordedClient};
use testkit::scenarios::cluster::ClusterHarness;
use testkit::servers::ZooKeeperAdmin;
use testkit::store::Written;
use testkit::worker_process::WorkerProcess;
use testkit::workload::queue::granted;

use super::harness::{
    LASTING, LOCK, LONG, SOON, ZookeeperHarness, nodes, now, path, pause, take, until_nodes, wait_for_loss,
    wait_for_renewal,
};

/// Less than the time between two renewals in a session of [`LASTING`](super::harness::LASTING).
const AT_ONCE: Duration = Duration::from_secs(2);

/// This many clients, of which only this one is behind the proxy.
async fn one_behind_the_proxy(
    count: usize,
    at: usize,
) -> (ZookeeperHarness, ZooKeeperAdmin, Vec<RecordedClient>) {
    let (harness, mut clients) = (ZookeeperHarness::one(), Vec::new());
    for number in 0..count {
        let client = if number == at { harness.client(LASTING).await } else { harness.rival(LASTING).await };
        clients.push(client);
    }
    let admin = harness.admin().await;
    (harness, admin, clients)
}

/// Ends the session of the client behind the proxy, which owns this node, while it is disconnected. It
/// reconnects at once, and is told.
async fn end_session(harness: &ZookeeperHarness, admin: &ZooKeeperAdmin, node: &str) {
    harness.proxy().refuse(true);
    harness.proxy().until_closed().await;
    admin.end_session_of(&path(LOCK, node)).await;
    harness.proxy().refuse(false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_session_ends_is_told_at_once_and_refused_by_the_store() {
    let (harness, admin, clients) = one_behind_the_proxy(2, 0).await;
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let (old, mut store) = (guard.token().expect("certain"), harness.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    let mut queue = harness.enqueue(&clients[1..], LONG).await;
    wait_for_renewal(&guard).await;
    let own = nodes(&admin, LOCK).await.remove(0);
    harness.recorder.fault_began(Fault::DataDeleted);
    end_session(&harness, &admin, &own).await;
    let ended = now();
    assert_eq!(wait_for_loss(&guard).await, Loss::SessionEnded);
    let late = now().since(ended);
    println!("told after {late:?}");
    assert!(late < AT_ONCE, "told by the next renewal, not at once: {late:?}");
    let next = granted(queue.take_first()).await;
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert!(next.token().expect("certain") > old);
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    let error = guard.release().await.expect_err("the lock was lost");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    clients[0].client().close().await.expect("leftovers are removed");
    assert!(next.is_certain() && nodes(&admin, LOCK).await.len() == 1, "the release did no harm");
    next.release().await.expect("held");
    take(&clients[0].lock(LOCK)).await.release().await.expect("a new session works");
    harness.judge(&clients, SOON).await;
}

/// Its predecessor still holds: neither the loss of its own node nor its place as the next one makes it a
/// holder, and it does not wait for a node that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_session_ends_queues_again_and_is_granted_the_lock() {
    let (harness, admin, clients) = one_behind_the_proxy(4, 2).await;
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let mut queue = harness.enqueue(&clients[1..], LONG).await;
    let before = nodes(&admin, LOCK).await;
    harness.recorder.fault_began(Fault::DataDeleted);
    // The one in the middle: its successor must not believe that it holds.
    end_session(&harness, &admin, &before[2]).await;
    let after = until_nodes(&admin, LOCK, 4).await;
    harness.recorder.fault_ended(Fault::DataDeleted);
    assert_eq!(after[..3], [&before[..2], &before[3..]].concat(), "the others keep their places");
    pause(200).await;
    assert!(queue.all_waiting() && guard.is_certain(), "no waiter believes that it holds");
    let (first, second, third) = (queue.take_first(), queue.take_first(), queue.take_first());
    let mut newest = guard.token().expect("certain");
    guard.release().await.expect("held");
    // The waiter that lost its place comes last.
    for waiter in [first, third, second] {
        let guard = granted(waiter).await;
        let token = guard.token().expect("certain");
        assert!(token > newest, "{token} after {newest}");
        newest = token;
        guard.release().await.expect("held");
    }
    harness.judge(&clients, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_dies_in_the_middle_of_the_queue_does_not_promote_its_successor() {
    let harness = ZookeeperHarness::one();
    let (clients, admin) = (harness.clients(2, LASTING).await, harness.admin().await);
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let mut doomed = WorkerProcess::start(&["hold", &harness.direct_url("1s"), LOCK, "2000"]);
    until_nodes(&admin, LOCK, 2).await;
    let lock = clients[1].lock(LOCK).ttl(LONG).wait(LONG);
    let waiter = tokio::spawn(async move { lock.acquire().await });
    let before = until_nodes(&admin, LOCK, 3).await;
    doomed.kill().await;
    let after = until_nodes(&admin, LOCK, 2).await;
    assert_eq!(after, [before[0].clone(), before[2].clone()], "the dead waiter's node is gone");
    // Any effect of its loss on the waiter behind it would show by now.
    pause(300).await;
    assert!(!waiter.is_finished() && guard.is_certain(), "the waiter does not hold");
    guard.release().await.expect("held");
    granted(waiter).await.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}
