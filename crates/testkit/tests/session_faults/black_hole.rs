//! A host vanishes without an error: all sockets stay open, and all traffic is lost.

use std::time::Duration;

use super::harness::{LOCK, LONG, SOON, SessionHarness, hold, now, on_both, pause, state, waiting};

const TTL: Duration = Duration::from_secs(3);
const OPTIONS: &str = "session-ttl=3s";
/// On top of the ttl: the time for a server to notice, and for a waiter to be told, on a machine that stalls
/// for half a second each time.
const NOTICED: Duration = Duration::from_millis(1_500);
/// The stop margin: the holder is told in time on such a machine, too.
const MARGIN: Duration = Duration::from_secs(1);

on_both! {
    a_holder_whose_host_vanishes_frees_the_lock_within_its_ttl;
    a_waiter_whose_host_vanishes_does_not_keep_the_lock;
    a_silent_connection_is_not_waited_for;
}

async fn a_holder_whose_host_vanishes_frees_the_lock_within_its_ttl(harness: SessionHarness) {
    let (client, rival) = (harness.client(OPTIONS).await, harness.direct_client(OPTIONS).await);
    let guard = client.lock(LOCK).ttl(TTL).stop_margin(MARGIN).acquire().await.expect("free");
    // Renewed a few times.
    pause(2 * TTL.as_millis() as u64).await;
    assert!(guard.is_certain());
    let next = waiting(&rival, TTL);
    pause(100).await;
    harness.proxy.black_hole(true);
    let dark = now();
    let lost = async {
        guard.lost().await;
        now()
    };
    let (lost, next) = tokio::join!(lost, next);
    let (next, got) = next.expect("no panic");
    println!("told after {:?}, free after {:?}, ttl {TTL:?}", lost.since(dark), got.since(dark));
    assert!(lost <= got, "told before another client had it");
    assert!(got.since(dark) < TTL + NOTICED, "{:?}", got.since(dark));
    assert!(!guard.is_certain() && next.is_certain());
    harness.proxy.black_hole(false);
    next.release().await.expect("held");
}

/// It may be granted the lock when no client is there to receive it: then it is like any other host that
/// vanished.
async fn a_waiter_whose_host_vanishes_does_not_keep_the_lock(harness: SessionHarness) {
    let (holder, vanishes) = (harness.direct_client(OPTIONS).await, harness.client(OPTIONS).await);
    let last = harness.direct_client(OPTIONS).await;
    let guard = hold(&holder, TTL).await;
    let vanished = waiting(&vanishes, TTL);
    pause(300).await;
    harness.proxy.black_hole(true);
    guard.release().await.expect("held");
    let freed = now();
    let (next, got) = waiting(&last, TTL).await.expect("no panic");
    println!("had after {:?}, ttl {TTL:?}", got.since(freed));
    // The rest of its slice, and its ttl.
    assert!(got.since(freed) < TTL + TTL / 2 + NOTICED, "{:?}", got.since(freed));
    next.release().await.expect("held");
    harness.proxy.black_hole(false);
    let (late, _) =
        tokio::time::timeout(LONG, vanished).await.expect("the waiter returns").expect("no panic");
    late.release().await.expect("held");
    assert!(state(&last).await.is_none());
}

/// A router on the way forgets the existing connections; new ones work.
async fn a_silent_connection_is_not_waited_for(harness: SessionHarness) {
    let client = harness.client(OPTIONS).await;
    let guard = hold(&client, TTL).await;
    harness.proxy.forget_connections();
    guard.lost().await;
    drop(guard);
    let begun = now();
    let again = tokio::time::timeout(LONG, hold(&client, TTL)).await.expect("on a new connection");
    let waited = now().since(begun);
    println!("held again after {waited:?}");
    assert!(waited < SOON, "the release waited for an answer that could not come: {waited:?}");
    again.release().await.expect("held");
}
