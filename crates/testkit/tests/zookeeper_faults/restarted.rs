//! A single server stalls, or is killed and restarted.

use latchwork::engine::Filter;
use latchwork::{ErrorKind, LockName, Loss};
use testkit::history::Fault;

use super::harness::{LOCK, LONG, MORTAL, SOON, ZookeeperHarness, now, pause, take, wait_for_loss};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stall_longer_than_the_session_costs_the_lock_and_nothing_else() {
    let harness = ZookeeperHarness::one();
    let (client, rival) = (harness.client(MORTAL).await, harness.rival(MORTAL).await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.recorder.fault_began(Fault::Trouble);
    harness.member().pause();
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    // It is told when at least half of the session is over.
    pause(4_000).await;
    harness.member().resume();
    harness.recorder.fault_ended(Fault::Trouble);
    // The client has its next session.
    let asks = Filter::Name(LockName::new(LOCK).expect("a good name"));
    let end = now().after(LONG);
    while let Err(error) = client.client().inspect(&asks).await {
        assert!(now() < end, "{error}");
        pause(10).await;
    }
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    let next = take(&client.lock(LOCK)).await;
    let token = next.token().expect("certain");
    next.release().await.expect("held");
    let last = take(&rival.lock(LOCK)).await;
    assert!(last.token().expect("certain") > token);
    last.release().await.expect("held");
    harness.judge(&[client, rival], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_keeps_the_lock_and_one_without_its_data_does_not() {
    let harness = ZookeeperHarness::one();
    let (patient, client) = (harness.rival("30s").await, harness.rival("3s").await);
    let guard = take(&patient.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Restart, || harness.member().restart());
    let tried = client.lock(LOCK).try_acquire().await.expect("an answer");
    assert!(guard.is_certain() && tried.is_none());
    guard.release().await.expect("held");
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::DataDeleted, || harness.member().restart_empty());
    let loss = wait_for_loss(&guard).await;
    assert!([Loss::Unreachable, Loss::SessionEnded].contains(&loss), "{loss:?}");
    drop(guard);
    // The server rejects a session that has seen a later state than its own; the client must recover from
    // that.
    let next = client.lock(LOCK).wait(LONG).acquire().await.expect("the lock becomes free");
    next.release().await.expect("held");
    harness.judge(&[client], LONG).await;
}
