//! Guards that are dropped, acquires that are dropped: nothing stays behind on a connection that is reused.

use std::time::Duration;

use latchwork::clock::Clock;

use super::harness::{LOCK, LONG, SessionHarness, hold, now, on_both, pause, state};

on_both! {
    dropped_guards_and_acquires_leave_nothing_on_a_reused_connection;
    many_locks_need_one_connection;
    one_client_never_holds_a_lock_twice;
}

async fn dropped_guards_and_acquires_leave_nothing_on_a_reused_connection(harness: SessionHarness) {
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(harness.client("session-ttl=30s").await);
    }
    let tasks = clients.iter().enumerate().map(|(number, client)| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..40_u64 {
                let lock = client.lock(LOCK).ttl(LONG).local_handoff(false);
                let patience = Duration::from_millis(1 + (round * 7 + number as u64 * 3) % 40);
                // Sometimes the acquire is dropped half-way, sometimes the guard.
                if let Ok(guard) = tokio::time::timeout(patience, lock.acquire()).await {
                    let guard = guard.expect("the lock becomes free");
                    assert!(guard.is_certain());
                    pause(round % 3).await;
                    drop(guard);
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    for client in &clients {
        client.close().await.expect("background work completes");
    }
    assert!(state(&clients[0]).await.is_none(), "{:?}", state(&clients[0]).await);
    for client in &clients {
        let guard = client
            .lock(LOCK)
            .ttl(LONG)
            .try_acquire()
            .await
            .expect("answers")
            .expect("no client has the lock");
        guard.release().await.expect("held");
    }
    println!("{} connections of {} clients", harness.connections(), clients.len());
    // One for all free locks, and two that are reserved for waiters.
    assert!(harness.connections() <= 3 * clients.len(), "{} connections", harness.connections());
}

async fn many_locks_need_one_connection(harness: SessionHarness) {
    let client = harness.client("session-ttl=2s").await;
    let until = now().after(LONG);
    while harness.connections() > 1 {
        assert!(now() < until, "the connections that tried the server are closed");
        pause(10).await;
    }
    let mut guards = Vec::new();
    for number in 0..200 {
        let lock = client.lock(format!("many/{number}")).ttl(LONG);
        guards.push(lock.try_acquire().await.expect("answers").expect("free"));
    }
    assert_eq!(harness.connections(), 1);
    // One heartbeat keeps them all, for several ttls.
    pause(5_000).await;
    assert!(guards.iter().all(|guard| guard.is_certain()));
    assert_eq!(harness.connections(), 1);
    for guard in guards {
        guard.release().await.expect("held");
    }
}

/// A database lock is reentrant on its connection: that must not make two holders.
async fn one_client_never_holds_a_lock_twice(harness: SessionHarness) {
    let client = harness.client("session-ttl=30s").await;
    let guard = hold(&client, LONG).await;
    let begun = Clock::boottime().now();
    while Clock::boottime().now().since(begun) < Duration::from_millis(200) {
        assert!(client.lock(LOCK).ttl(LONG).try_acquire().await.expect("answers").is_none());
    }
    guard.release().await.expect("held");
    let other = harness.direct_client("session-ttl=30s").await;
    let free = other.lock(LOCK).ttl(LONG).try_acquire().await.expect("answers");
    free.expect("released as often as it was taken").release().await.expect("held");
}
