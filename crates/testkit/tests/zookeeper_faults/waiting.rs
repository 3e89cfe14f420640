//! The requests of a waiter while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use latchwork::LockName;
use latchwork::engine::Filter;
use tokio::sync::Notify;

use super::harness::{LASTING, LOCK, LONG, SOON, ZookeeperHarness, now, pause, take, until_nodes};

/// A read of three nodes in every third of its session, in one write, and a heartbeat in every eighth. To
/// list the queue and to set its watches again would be two writes more, and the list grows with the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_reads_a_few_nodes_now_and_then_and_never_the_whole_queue() {
    let harness = ZookeeperHarness::one();
    let (holder, waiter, admin) =
        (harness.rival(LASTING).await, harness.client("1500ms").await, harness.admin().await);
    let guard = take(&holder.lock(LOCK).ttl(LONG)).await;
    let lock = waiter.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_nodes(&admin, LOCK, 2).await;
    // It lists the queue and sets its watches.
    pause(200).await;
    let (begun, before) = (now(), harness.proxy().requests());
    pause(2_500).await;
    let writes = harness.proxy().requests() - before;
    let thirds = now().since(begun).as_secs_f64() / Duration::from_millis(500).as_secs_f64();
    println!("{writes} writes in {thirds:.1} thirds of a session");
    assert!(
        writes as f64 <= (1.0 + 8.0 / 3.0) * thirds + 2.0,
        "{writes} writes in {thirds:.1} thirds of a session"
    );
    guard.release().await.expect("held");
    testkit::workload::queue::granted(waiting).await.release().await.expect("held");
    harness.judge(&[holder, waiter], SOON).await;
}

/// With `scheme=single` all waiters watch one node, and the server does not reveal the watchers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_cannot_list_waiters_does_not_promise_to() {
    let harness = ZookeeperHarness::one();
    let url = harness.direct_url(LASTING) + "&scheme=single";
    let holder = latchwork::connect(&url).await.expect("the server runs");
    let waiter = latchwork::connect(&url).await.expect("the server runs");
    let guard = holder.lock(LOCK).ttl(LONG).acquire().await.expect("free");
    let waits = Arc::new(Notify::new());
    let lock = waiter.lock(LOCK).ttl(LONG).wait(LONG).on_waiting({
        let waits = waits.clone();
        move |_| waits.notify_one()
    });
    let waiting = tokio::spawn(async move { lock.acquire().await });
    waits.notified().await;
    let state =
        holder.inspect(&Filter::Name(LockName::new(LOCK).expect("a name"))).await.expect("it answers");
    assert_eq!(state[0].waiters.len(), 0, "{state:?}");
    assert!(!holder.guarantees().lists_waiters, "an empty list would mean that there are no waiters");
    guard.release().await.expect("held");
    waiting.await.expect("no panic").expect("free").release().await.expect("held");
}
