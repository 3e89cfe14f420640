//! Requests are executed, and the client never gets the reply.

use super::harness::{LASTING, LOCK, LONG, SOON, ZookeeperHarness, nodes, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_is_found_again_and_leaves_one_node() {
    let harness = ZookeeperHarness::one();
    let (client, rival, admin) =
        (harness.client(LASTING).await, harness.rival(LASTING).await, harness.admin().await);
    take(&client.lock(LOCK)).await.release().await.expect("held");
    // Only the claim contains the text of a node.
    harness.proxy().lose_reply_to(b"latchwork1");
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    assert_eq!(harness.proxy().lost_replies(), 1, "the fault has happened");
    assert_eq!(nodes(&admin, LOCK).await.len(), 1, "it does not wait behind itself");
    assert!(guard.is_certain() && rival.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("held");
    harness.judge(&[client, rival], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_reply_is_lost_is_retried_and_affects_no_other_client() {
    let harness = ZookeeperHarness::one();
    let (client, rival) = (harness.client(LASTING).await, harness.rival(LASTING).await);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.proxy().lose_reply_to(b"-lock-");
    let lock = rival.lock(LOCK).ttl(LONG);
    let (released, next) = tokio::join!(guard.release(), take(&lock));
    assert_eq!(harness.proxy().lost_replies(), 1, "the fault has happened");
    drop(released);
    client.client().close().await.expect("the retry was answered");
    let tried = client.lock(LOCK).try_acquire().await.expect("an answer");
    assert!(next.is_certain() && tried.is_none(), "the next holder's node is there");
    next.release().await.expect("held");
    harness.judge(&[client, rival], SOON).await;
}
