//! Outages: of a reply, of a connection during its handshake, of everything for longer than a ttl.

use std::time::Duration;

use latchwork::engine::{Claim, Engine, EngineUrl, Released, Verdict};
use latchwork::engines::mysql::MysqlSession;
use latchwork::engines::postgres::PostgresSession;
use latchwork::{Client, Effect, ErrorKind, LockName};

use super::harness::{LOCK, LONG, Server, SessionHarness, hold, now, on_both, pause};

on_both! {
    a_lost_reply_is_reported_as_unknown_and_leaves_nothing;
    a_connection_that_stalls_during_its_handshake_is_abandoned;
    an_outage_longer_than_the_ttl_leaves_every_name_usable;
}

async fn a_lost_reply_is_reported_as_unknown_and_leaves_nothing(harness: SessionHarness) {
    let url: EngineUrl = harness.url("session-ttl=30s").parse().expect("a valid URL");
    let rival = harness.direct_client("session-ttl=30s").await;
    match &harness.server {
        Server::Postgres(_) => lose(&harness, PostgresSession::connect(&url).await, &rival).await,
        Server::Mariadb(_) => lose(&harness, MysqlSession::connect(&url).await, &rival).await,
    }
}

async fn lose(harness: &SessionHarness, engine: latchwork::Result<impl Engine>, rival: &Client) {
    let engine = engine.expect("the server accepts the connection");
    let claim = Claim::new(LockName::new(LOCK).expect("a good name"), LONG);
    let is_free = async || {
        let tried = rival.lock(LOCK).ttl(LONG).try_acquire().await.expect("answers");
        match tried {
            Some(guard) => guard.release().await.map(|()| true).expect("held"),
            None => false,
        }
    };
    harness.proxy.lose_next_reply();
    let error = engine.claim(&claim).await.expect_err("the grant was not confirmed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    let verdict = engine.claim(&claim).await.expect("on a new connection");
    assert!(matches!(verdict, Verdict::Granted(_)), "its own former request does not block it: {verdict:?}");
    assert!(!is_free().await);
    harness.proxy.lose_next_reply();
    let error = engine.release(&claim).await.expect_err("the release was not confirmed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    assert_eq!(harness.proxy.lost_replies(), 2, "the faults have happened");
    assert_eq!(engine.release(&claim).await.expect("answers"), Released::NotHeld);
    assert!(is_free().await);
}

/// The server has accepted the login, and then sends nothing more.
async fn a_connection_that_stalls_during_its_handshake_is_abandoned(harness: SessionHarness) {
    let setting: &[u8] = match &harness.server {
        Server::Postgres(_) => b"idle_session_timeout",
        Server::Mariadb(_) => b"SESSION wait_timeout",
    };
    harness.proxy.silence_after(setting);
    let connecting = tokio::time::timeout(LONG, latchwork::connect(&harness.url(""))).await;
    let error = connecting.expect("the wait has a limit").expect_err("no server answers");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("no answer to the connection within 5s"), "{error}");
    hold(&harness.client("").await, LONG).await.release().await.expect("the next connection works");
}

async fn an_outage_longer_than_the_ttl_leaves_every_name_usable(harness: SessionHarness) {
    const TTL: Duration = Duration::from_secs(1);
    let (client, rival) =
        (harness.client("session-ttl=1s").await, harness.direct_client("session-ttl=1s").await);
    for is_dark in [false, true] {
        let guard = hold(&client, TTL).await;
        let other = client.lock("given back in the outage").ttl(TTL).acquire().await.expect("free");
        match is_dark {
            true => harness.proxy.black_hole(true),
            false => harness.proxy.refuse(true),
        }
        other.release().await.expect_err("no server answers");
        guard.lost().await;
        drop(guard);
        let tried = client.lock(LOCK).ttl(TTL).wait(TTL / 4).acquire().await;
        tried.map(drop).expect_err("no server answers");
        pause(TTL.as_millis() as u64).await;
        match is_dark {
            true => harness.proxy.black_hole(false),
            false => harness.proxy.refuse(false),
        }
        let healed = now();
        for (who, lock) in [(&rival, LOCK), (&client, LOCK), (&client, "given back in the outage")] {
            let guard = who.lock(lock).ttl(TTL).wait(LONG).acquire().await.expect("no client has the lock");
            guard.release().await.expect("held");
        }
        println!("dark {is_dark}: all were had {:?} after it ended", now().since(healed));
    }
}
