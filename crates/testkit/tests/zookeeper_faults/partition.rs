//! The network in front of the server is cut while a lock is held.

use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::network::proxy::Proxy;
use testkit::workload::contenders::MARGIN;

use super::harness::{LOCK, LONG, MORTAL, SOON, ZookeeperHarness, now, take, wait_for_loss};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_partition_is_told_before_another_gets_its_lock() {
    let harness = ZookeeperHarness::one();
    let (client, rival) = (harness.client(MORTAL).await, harness.rival(MORTAL).await);
    for fault in [Proxy::refuse, Proxy::black_hole] {
        let guard = take(&client.lock(LOCK).ttl(LONG).with(|lock| lock.stop_margin(MARGIN))).await;
        let lock = rival.lock(LOCK).ttl(LONG).wait(LONG);
        let waiting = tokio::spawn(async move { (lock.acquire().await, now()) });
        harness.recorder.fault_began(Fault::Partition);
        fault(harness.proxy(), true);
        assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
        let told = now();
        let (next, granted) = waiting.await.expect("no panic");
        assert!(told < granted, "told {:?} after another was granted", told.since(granted));
        fault(harness.proxy(), false);
        harness.recorder.fault_ended(Fault::Partition);
        assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
        client.client().close().await.expect("leftovers are removed");
        let next = next.expect("its turn comes");
        assert!(next.is_certain(), "a client that reconnects does not disturb the next holder");
        next.release().await.expect("held");
    }
    take(&client.lock(LOCK)).await.release().await.expect("a new session works");
    harness.judge(&[client, rival], SOON).await;
}
