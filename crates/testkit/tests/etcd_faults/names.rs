//! Deleted keys slow every listing of a queue, so the next claim reuses the last one's key, unless that is
//! unsafe.

use super::harness::{EtcdHarness, LOCK, LONG, SOON, connect, take};

/// This text is part of claims and of no other message on the wire.
const NOTE: &str = "the client under test";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_claim_reuses_the_key_under_another_id() {
    let harness = EtcdHarness::one();
    let client = harness.direct_client().await;
    let (mut keys, mut ids, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let guard = take(&client.lock(LOCK).ttl(LONG)).await;
        keys.extend(harness.keys());
        ids.push(harness.state(&client).await.expect("it is held").holders.remove(0).id);
        tokens.push(guard.token().expect("certain").engine_token());
        assert!(client.lock(LOCK).ttl(LONG).try_acquire().await.expect("an answer").is_none());
        guard.release().await.expect("held");
    }
    keys.dedup();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(ids.windows(2).all(|two| two[0] != two[1]), "{ids:?}");
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    harness.judge(&[client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_a_lost_request_may_still_change_is_not_reused() {
    let harness = EtcdHarness::one();
    let client = harness.recorder.client(connect(&harness.url()).await.with_note(NOTE));
    take(&client.lock("before").ttl(LONG)).await.release().await.expect("held");
    harness.proxy().silence_after(NOTE.as_bytes());
    let lock = client.lock(LOCK).ttl(LONG);
    let claiming = tokio::spawn(async move { lock.acquire().await });
    let doubtful = harness.until_keys(1).await;
    harness.proxy().cut();
    let guard = claiming.await.expect("no panic").expect("the claim's own grant");
    assert_eq!(harness.keys(), doubtful, "the same claim, the same key");
    guard.release().await.expect("held");
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    assert_ne!(harness.keys(), doubtful);
    guard.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}
