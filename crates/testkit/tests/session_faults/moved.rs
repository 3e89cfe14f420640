//! A connection and the runtime that opened it: no lock depends on whether that runtime runs.

use std::time::Duration;

use latchwork::{Client, Guard, Loss};
use tokio::runtime::{Builder, Runtime};

use super::harness::{LOCK, LONG, SOON, SessionHarness, connect, hold, now, on_both, pause};

/// A renewed lock is not lost on a machine that stalls for half a second.
const TTL: Duration = Duration::from_secs(2);

on_both! {
    a_lock_outlives_the_runtime_that_took_it_and_is_told_of_its_end;
    a_stalled_runtime_loses_no_lock_and_delays_no_other;
    a_request_sent_before_its_runtime_stalled_is_still_undone;
    a_waiter_whose_runtime_ends_is_granted_nothing;
    a_waiter_continues_on_another_runtime_when_its_first_one_ends_or_stalls;
    a_runtime_that_stalls_while_connecting_delays_no_other_for_long;
}

/// A client and its lock, and the runtime on which both were opened, which is not driven any more.
async fn acquired_on_another_runtime(url: String, ttl: Duration) -> (Client, Guard, Runtime) {
    let taking = move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (client, guard) = runtime.block_on(async {
            let client = connect(&url).await;
            let guard = hold(&client, ttl).await;
            (client, guard)
        });
        (client, guard, runtime)
    };
    tokio::task::spawn_blocking(taking).await.expect("no panic")
}

/// A future that is pending for longer than this, and the runtime on which it was started, which is not
/// driven any more.
async fn started_on_another_runtime<F: Future + Unpin + Send + 'static>(
    mut begun: F,
    span: Duration,
) -> (F, Runtime) {
    let begin = move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let ended = runtime.block_on(async { tokio::time::timeout(span, &mut begun).await });
        assert!(ended.is_err(), "no server could have answered");
        (begun, runtime)
    };
    tokio::task::spawn_blocking(begin).await.expect("no panic")
}

/// For several ttls.
async fn is_kept(guard: &Guard, rival: &Client) {
    pause(2 * TTL.as_millis() as u64).await;
    assert!(guard.is_certain());
    assert!(rival.lock(LOCK).ttl(TTL).try_acquire().await.expect("answers").is_none());
}

async fn a_lock_outlives_the_runtime_that_took_it_and_is_told_of_its_end(harness: SessionHarness) {
    let rival = harness.direct_client("session-ttl=2s").await;
    let (_client, guard, runtime) = acquired_on_another_runtime(harness.url("session-ttl=2s"), TTL).await;
    runtime.shutdown_background();
    is_kept(&guard, &rival).await;
    guard.release().await.expect("held");
    hold(&rival, TTL).await.release().await.expect("held");
    // Renewals come every ten seconds here.
    let (_client, guard, runtime) = acquired_on_another_runtime(harness.url("session-ttl=30s"), LONG).await;
    runtime.shutdown_background();
    pause(100).await;
    harness.proxy.cut();
    let loss =
        tokio::time::timeout(SOON, guard.lost()).await.expect("the loss is reported long before a renewal");
    assert_eq!(loss, Loss::SessionEnded);
}

/// It is in the server's queue, ahead of others, when no task is left to receive the grant.
async fn a_waiter_whose_runtime_ends_is_granted_nothing(harness: SessionHarness) {
    let (holder, next) =
        (harness.direct_client("session-ttl=30s").await, harness.direct_client("session-ttl=30s").await);
    let (guard, url) = (hold(&holder, LONG).await, harness.url("session-ttl=30s"));
    let waiting = move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            let client = connect(&url).await;
            let lock = client.lock(LOCK).ttl(LONG);
            tokio::spawn(async move { lock.acquire().await });
            pause(500).await;
            client
        });
        runtime.shutdown_background();
        client
    };
    let _client = tokio::task::spawn_blocking(waiting).await.expect("no panic");
    guard.release().await.expect("held");
    let asked = now();
    hold(&next, LONG).await.release().await.expect("held");
    assert!(now().since(asked) < Duration::from_secs(6), "long before a silent connection is ended");
}

async fn a_waiter_continues_on_another_runtime_when_its_first_one_ends_or_stalls(harness: SessionHarness) {
    let (holder, client) =
        (harness.direct_client("session-ttl=30s").await, harness.direct_client("session-ttl=30s").await);
    for ends in [true, false] {
        let (guard, lock) = (hold(&holder, LONG).await, client.lock(LOCK).ttl(LONG));
        let waiting = Box::pin(async move { lock.acquire().await });
        let (waiting, runtime) = started_on_another_runtime(waiting, Duration::from_millis(500)).await;
        if ends {
            runtime.shutdown_background();
        } else {
            // Until the process ends.
            std::mem::forget(runtime);
        }
        guard.release().await.expect("held");
        let got = tokio::time::timeout(Duration::from_secs(6), waiting).await.expect("soon");
        got.expect("its turn").release().await.expect("held");
    }
}

/// Its reply arrives when that runtime is not driven any more.
async fn a_request_sent_before_its_runtime_stalled_is_still_undone(harness: SessionHarness) {
    let rival = harness.direct_client("session-ttl=30s").await;
    let url = harness.url("session-ttl=30s");
    let (client, guard, runtime) = acquired_on_another_runtime(url, LONG).await;
    guard.release().await.expect("held");
    harness.proxy.delay(Duration::from_millis(300));
    let asking = move || {
        let asked = runtime.block_on(async {
            let lock = client.lock(LOCK).ttl(LONG);
            tokio::time::timeout(Duration::from_millis(100), lock.acquire()).await
        });
        assert!(asked.is_err(), "no server could have answered");
        (client, runtime)
    };
    let (client, runtime) = tokio::task::spawn_blocking(asking).await.expect("no panic");
    let asked = now();
    hold(&rival, LONG).await.release().await.expect("held");
    assert!(now().since(asked) < Duration::from_secs(6), "released long before a request is abandoned");
    drop(client);
    runtime.shutdown_background();
}

async fn a_stalled_runtime_loses_no_lock_and_delays_no_other(harness: SessionHarness) {
    let rival = harness.direct_client("session-ttl=2s").await;
    let (client, guard, runtime) = acquired_on_another_runtime(harness.url("session-ttl=2s"), TTL).await;
    is_kept(&guard, &rival).await;
    let other = tokio::time::timeout(SOON, client.lock("another").ttl(TTL).acquire()).await;
    let other = other.expect("sent on the other runtime's connection").expect("free");
    let released = async {
        guard.release().await.expect("held");
        other.release().await.expect("held");
    };
    tokio::time::timeout(SOON, released).await.expect("the reply arrives on this runtime");
    hold(&rival, TTL).await.release().await.expect("held");
    // When it has no user any more, it is closed without its runtime.
    drop(client);
    let until = now().after(LONG);
    while harness.proxy.connections() > 0 {
        assert!(now() < until, "{} connections are left", harness.proxy.connections());
        pause(10).await;
    }
    runtime.shutdown_background();
}

/// A concurrent request would use that connection, and waits for it.
async fn a_runtime_that_stalls_while_connecting_delays_no_other_for_long(harness: SessionHarness) {
    let client = harness.client("session-ttl=30s").await;
    harness.end_connections();
    pause(200).await;
    harness.proxy.delay(Duration::from_millis(300));
    let lock = client.lock("another").ttl(LONG);
    let asking = Box::pin(async move { lock.acquire().await });
    let (asking, runtime) = started_on_another_runtime(asking, Duration::from_millis(100)).await;
    harness.proxy.delay(Duration::ZERO);
    let held = tokio::time::timeout(Duration::from_secs(8), hold(&client, LONG)).await;
    let held = held.expect("long before a request is abandoned");
    let go_on = move || (runtime.block_on(asking).expect("free"), runtime);
    let (other, runtime) = tokio::task::spawn_blocking(go_on).await.expect("no panic");
    // Its connection is too late: there is one with a lock on it, and one is enough.
    let until = now().after(LONG);
    while harness.connections() != 1 {
        assert!(now() < until, "{} connections", harness.connections());
        pause(20).await;
    }
    assert!(held.is_certain() && other.is_certain());
    held.release().await.expect("held");
    other.release().await.expect("held");
    runtime.shutdown_background();
}
