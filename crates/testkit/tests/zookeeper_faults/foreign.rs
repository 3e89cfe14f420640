//! Nodes of other clients, and nodes that only look like one.

use super::harness::{CHROOT, LASTING, LOCK, LONG, SOON, ZookeeperHarness, take, until_nodes};
use testkit::workload::queue::granted;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_other_clients_exclude_and_nodes_that_only_look_alike_do_not() {
    let harness = ZookeeperHarness::one();
    let (client, admin) = (harness.rival(LASTING).await, harness.admin().await);
    take(&client.lock(LOCK)).await.release().await.expect("held");
    let outlives = format!("{CHROOT}/{LOCK}/1234567890");
    admin.make(&outlives).await;
    take(&client.lock(LOCK)).await.release().await.expect("a node that outlives its session is no claim");
    for kind in ["0011__lock__", "0011__rlock__", "_c_0011-lock-", "_c_0011-__READ__", "member_"] {
        let node = admin.enrol(&format!("{CHROOT}/{LOCK}/{kind}")).await;
        assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "{kind} excludes");
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until_nodes(&admin, LOCK, 3).await;
        admin.delete(&node).await;
        granted(waiting).await.release().await.expect("held");
    }
    admin.delete(&outlives).await;
    harness.judge(&[client], SOON).await;
}
