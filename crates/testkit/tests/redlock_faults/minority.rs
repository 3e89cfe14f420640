//! Some masters are dead, or hang.

use latchwork::ErrorKind;

use super::harness::{LOCK, LONG, RedlockHarness, now, take};

/// Longer than an idle master needs, and long enough for one on a busy machine.
const OPTIONS: &str = "quarantine=off&node-timeout=200ms";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_masters_may_be_dead_and_three_may_not() {
    let harness = RedlockHarness::new();
    let client = harness.client(OPTIONS).await;
    harness.masters[..2].iter().for_each(|master| master.kill());
    let first = take(&client.lock(LOCK).ttl(LONG)).await;
    let token = first.token().expect("certain");
    first.release().await.expect("held");
    // A new client finds a majority, too.
    let other = harness.client(OPTIONS).await;
    let second = take(&other.lock(LOCK).ttl(LONG)).await;
    assert!(second.token().expect("certain") > token);
    second.release().await.expect("held");

    harness.masters[2].kill();
    let limit = std::time::Duration::from_secs(1);
    let (begun, lock) = (now(), client.lock(LOCK).ttl(LONG).wait(limit));
    let error = lock.acquire().await.expect_err("two are no majority");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("2 of 5 masters answered, 3 are needed"), "{error}");
    println!("refused after {:?}", now().since(begun));
    assert!(now().since(begun) < limit * 3 / 2, "within the wait limit");
    let alive = &harness.masters[3..];
    let keys = || alive.iter().filter(|master| master.command(&["EXISTS", LOCK]).integer() == 1).count();
    assert_eq!(keys(), 0, "left on the live masters");
    assert!(
        latchwork::connect(&harness.url(OPTIONS)).await.is_err(),
        "no client connects without a majority"
    );
    harness.masters[..3].iter().for_each(|master| master.restart());
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    harness.judge(&[client, other]).await;
}

/// Connections stay open, and nothing is answered. A majority is enough, so that costs nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_masters_may_hang() {
    let harness = RedlockHarness::new();
    let client = harness.client("quarantine=off&node-timeout=3s").await;
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    harness.masters[1].pause();
    harness.masters[4].pause();
    let begun = now();
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    println!("claimed in {:?}", now().since(begun));
    assert!(now().since(begun).as_secs() < 3, "it waited for the masters that hang");
    guard.release().await.expect("held");
    harness.masters[1].resume();
    harness.masters[4].resume();
    harness.judge(&[client]).await;
}
