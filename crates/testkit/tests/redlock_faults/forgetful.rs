//! Masters restart without their data.

use latchwork::Loss;
use testkit::history::Fault;
use testkit::store::Written;

use super::harness::{LOCK, LONG, RedlockHarness, SOON, take, wait_for_loss, wait_for_renewal};

/// Each has no vote until the longest ttl has passed, so a majority that lost its data grants nothing that is
/// held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_restarted_empty_one_after_the_other_keep_exclusion_in_quarantine() {
    let harness = RedlockHarness::new();
    let options = "max-ttl=3s&node-timeout=200ms";
    let (holder, rival) = (harness.client(options).await, harness.client(options).await);
    let ttl = std::time::Duration::from_secs(3);
    // The masters are new, so they are in quarantine themselves.
    let guard = holder.lock(LOCK).ttl(ttl).wait(LONG).acquire().await.expect("the quarantine ends");
    // It may have been granted by the first three masters that had a vote.
    harness.until_keys(LOCK, 5, SOON).await;
    for master in &harness.masters {
        harness.recorder.fault_began(Fault::Restart);
        master.restart_empty();
        // A renewal discovers the lost keys, and restores them.
        harness.until_keys(LOCK, 5, SOON).await;
        assert!(guard.is_certain(), "a majority had it all the time");
        assert!(rival.lock(LOCK).ttl(ttl).try_acquire().await.expect("an answer").is_none(), "it is held");
        harness.recorder.fault_ended(Fault::Restart);
    }
    // The restored keys count: no master of the original grant has kept its key.
    wait_for_renewal(&guard).await;
    guard.release().await.expect("the lock was held throughout");
    harness.judge(&[holder, rival]).await;
}

/// Without quarantine two clients may hold, and tokens distinguish them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_still_rise_without_quarantine() {
    let harness = RedlockHarness::new();
    let options = "quarantine=off&node-timeout=200ms";
    let (holder, rival) = (harness.client(options).await, harness.client(options).await);
    let guard = take(&holder.lock(LOCK).ttl(std::time::Duration::from_secs(3))).await;
    let (old, mut store) = (guard.token().expect("certain"), harness.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    harness.recorder.fault_began(Fault::DataDeleted);
    harness.masters[..3].iter().for_each(|master| master.restart_empty());
    let next = take(&rival.lock(LOCK).ttl(LONG)).await;
    assert!(next.token().expect("certain") > old);
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    drop(guard);
    harness.recorder.fault_ended(Fault::DataDeleted);
    next.release().await.expect("held");
    harness.judge(&[holder, rival]).await;
}
