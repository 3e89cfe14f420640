//! Tokens on request.

use latchwork::ErrorKind;

use super::harness::{LOCK, LONG, SessionHarness, hold, on_both, pause};

on_both! {
    a_token_exists_on_request_and_its_absence_is_explained;
    tokens_rise_from_client_to_client_even_across_a_restart;
}

async fn a_token_exists_on_request_and_its_absence_is_explained(harness: SessionHarness) {
    let client = harness.client("").await;
    let plain = hold(&client, LONG).await;
    let error = plain.token().expect_err("not asked for");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains(".fenced()"), "{error}");
    // A task that needs a token is not handed a lock without one.
    let lock = client.lock(LOCK).ttl(LONG).fenced();
    let fenced = tokio::spawn(async move { lock.acquire().await.expect("the lock becomes free") });
    pause(50).await;
    plain.release().await.expect("held");
    let fenced = fenced.await.expect("no panic");
    fenced.token().expect("asked for");
    fenced.release().await.expect("held");
    // In the URL, for all locks.
    let always = harness.client("fenced=always").await;
    hold(&always, LONG).await.token().expect("asked for in the URL");
}

async fn tokens_rise_from_client_to_client_even_across_a_restart(harness: SessionHarness) {
    let clients = [harness.client("").await, harness.client("").await];
    let mut last = None;
    for round in 0..12 {
        let guard =
            clients[round % 2].lock(LOCK).ttl(LONG).fenced().wait(LONG).acquire().await.expect("free");
        let token = Some(guard.token().expect("asked for"));
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        // Every other lock is acquired by waiting for it.
        let next = clients[(round + 1) % 2].clone();
        let waiting = tokio::spawn(async move {
            let lock = next.lock(LOCK).ttl(LONG).fenced().wait(LONG);
            let guard = lock.acquire().await.expect("the lock becomes free");
            let token = guard.token().expect("asked for");
            guard.release().await.expect("held");
            token
        });
        pause(20).await;
        guard.release().await.expect("held");
        let token = Some(waiting.await.expect("no panic"));
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
        if round == 5 {
            harness.restart();
        }
    }
}
