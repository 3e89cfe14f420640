//! Keep-alives stop while the holder works, and the holder gets no error.

use latchwork::Loss;
use testkit::history::Fault;
use testkit::store::Written;
use testkit::workload::contenders::{MARGIN, UNRENEWED};

use super::harness::{EtcdHarness, LOCK, LONG, SOON, now, pause, take, wait_for_loss, wait_for_renewal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_behind_a_black_hole_is_told_before_its_key_expires_on_the_server() {
    let harness = EtcdHarness::one();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    let guard = take(&client.lock(LOCK).ttl(UNRENEWED).with(|lock| lock.stop_margin(MARGIN))).await;
    let (old, mut store) = (guard.token().expect("certain"), harness.store());
    assert_eq!(store.write(old, "before"), Written::Accepted);
    wait_for_renewal(&guard).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy().black_hole(true);
    assert_eq!(wait_for_loss(&guard).await, Loss::Unreachable);
    let (told, early) = (now(), guard.lease_end().since(now()));
    assert!(!early.is_zero(), "told after its lease had ended");
    assert_eq!(harness.keys().len(), 1, "the key expired before its holder was told");
    harness.until_keys(0).await;
    println!("told {early:?} before the lease could end, and {:?} before the key died", now().since(told));
    let next = take(&other.lock(LOCK).ttl(LONG)).await;
    assert_eq!(store.write(next.token().expect("certain"), "after"), Written::Accepted);
    assert!(matches!(store.write(old, "stale"), Written::Refused { .. }));
    drop(guard);
    harness.proxy().black_hole(false);
    harness.recorder.fault_ended(Fault::Partition);
    // Keep-alives and a release that were held back arrive now.
    pause(500).await;
    assert!(next.is_certain(), "a late message revoked the lock");
    next.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}
