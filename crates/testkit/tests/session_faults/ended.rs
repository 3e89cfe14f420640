//! A connection ends, for whatever reason: its holder is told at once, and not at its next renewal.

use std::time::Duration;

use latchwork::engine::{Filter, Revoke, Revoked};
use latchwork::{ErrorKind, LockName, Loss};

use super::harness::{LOCK, LONG, SOON, SessionHarness, hold, now, on_both, pause, state, waiting};

on_both! {
    a_holder_is_told_at_once_however_its_connection_ends;
    a_restarted_server_has_lost_its_locks_and_the_holder_is_told;
    a_lock_is_revoked_with_its_connection_and_with_the_other_locks_on_it;
    a_waiter_keeps_waiting_when_connections_end;
}

/// Renewals come every ten seconds here: a holder that is told sooner was told by the connection itself.
async fn a_holder_is_told_at_once_however_its_connection_ends(harness: SessionHarness) {
    let client = harness.client("session-ttl=30s").await;
    for by_proxy in [false, true] {
        // Once on the shared connection, once on one that waited.
        for waits in [false, true] {
            let rival = harness.direct_client("session-ttl=30s").await;
            let blocker = if waits { Some(hold(&rival, LONG).await) } else { None };
            let next = waiting(&client, LONG);
            if let Some(blocker) = blocker {
                pause(200).await;
                blocker.release().await.expect("held");
            }
            let (guard, _) = next.await.expect("no panic");
            match by_proxy {
                true => harness.proxy.cut(),
                false => harness.end_connections(),
            }
            let ended = now();
            let loss = tokio::time::timeout(SOON, guard.lost())
                .await
                .expect("the loss is reported long before a renewal");
            println!("ended by a proxy {by_proxy}, waited {waits}: told after {:?}", now().since(ended));
            assert_eq!(loss, Loss::SessionEnded);
            assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
        }
    }
}

async fn a_restarted_server_has_lost_its_locks_and_the_holder_is_told(harness: SessionHarness) {
    let (client, rival) =
        (harness.client("session-ttl=30s").await, harness.direct_client("session-ttl=30s").await);
    let guard = client.lock(LOCK).ttl(LONG).fenced().acquire().await.expect("free");
    harness.restart();
    let loss =
        tokio::time::timeout(SOON, guard.lost()).await.expect("the loss is reported long before a renewal");
    assert_eq!(loss, Loss::SessionEnded);
    let next =
        rival.lock(LOCK).ttl(LONG).fenced().wait(LONG).acquire().await.expect("no client has the lock");
    assert!(next.token().expect("asked for") > guard.token().expect("asked for"));
    drop(guard);
    client.close().await.expect("nothing is left");
    assert!(next.is_certain(), "the late release had no effect");
    next.release().await.expect("held");
    hold(&client, LONG).await.release().await.expect("on a new connection");
}

async fn a_lock_is_revoked_with_its_connection_and_with_the_other_locks_on_it(harness: SessionHarness) {
    let (client, operator) =
        (harness.client("session-ttl=30s").await, harness.direct_client("session-ttl=30s").await);
    let guard = hold(&client, LONG).await;
    let neighbour = client.lock("neighbour").ttl(LONG).acquire().await.expect("free");
    let found = state(&operator).await.expect("held");
    let refused = operator.revoke(&found, Revoke::AtLeaseEnd).await.expect_err("there is no lease to end");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("--now"), "{refused}");
    assert!(guard.is_certain(), "nothing was done");
    assert_eq!(operator.revoke(&found, Revoke::Now).await.expect("allowed"), Revoked::Done);
    let next = operator.lock(LOCK).ttl(LONG).try_acquire().await.expect("answers").expect("free at once");
    for lost in [&guard, &neighbour] {
        let told = tokio::time::timeout(SOON, lost.lost()).await;
        assert_eq!(told.expect("the loss is reported long before a renewal"), Loss::SessionEnded);
    }
    assert_eq!(
        operator.revoke(&found, Revoke::Now).await.expect("answers"),
        Revoked::NotHeld,
        "it has moved on"
    );
    assert!(next.is_certain());
    next.release().await.expect("held");
    let listed = operator.inspect(&Filter::Prefix(String::new())).await.expect_err("names are hashed");
    assert_eq!(listed.kind(), ErrorKind::Unsupported);
    let unused = LockName::new("never used").expect("a good name");
    assert!(operator.inspect(&Filter::Name(unused)).await.expect("answers").is_empty());
}

async fn a_waiter_keeps_waiting_when_connections_end(harness: SessionHarness) {
    let (client, rival) =
        (harness.client("session-ttl=30s").await, harness.direct_client("session-ttl=30s").await);
    let guard = hold(&rival, LONG).await;
    let next = waiting(&client, LONG);
    pause(300).await;
    harness.proxy.cut();
    pause(300).await;
    assert!(!next.is_finished() && guard.is_certain());
    guard.release().await.expect("held");
    let (next, _) = tokio::time::timeout(Duration::from_secs(15), next)
        .await
        .expect("the waiter is granted the lock")
        .expect("no panic");
    next.release().await.expect("held");
}
