//! A pooler that gives every transaction another of its connections.

use std::sync::Arc;

use latchwork::{ErrorKind, connect};
use testkit::rivals::Rivals;
use testkit::servers::Pgbouncer;

const RIVALS: Rivals = Rivals { processes: 3, clients: 5, turns: 8 };

/// More clients than it has connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_behind_a_pooler_have_their_turns_in_order() {
    let pooler = Pgbouncer::start();
    let url = pooler.server().url(pooler.address(), "");
    let contest = RIVALS.compete(&url).await;
    let client = connect(&url).await.expect("it runs");
    assert!(!client.guarantees().pushes, "nobody is told behind a pooler");
    contest.is_judged(&client);
    contest.is_fair();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_that_there_is_no_pooler_is_told_that_there_is() {
    let pooler = Arc::new(Pgbouncer::start());
    let url = |options: &str| pooler.server().url(pooler.address(), options);
    let [mistaken, other] = [connect(&url("pooler=no")).await, connect(&url("")).await];
    let (mistaken, other) = (mistaken.expect("it can be reached"), other.expect("it can be reached"));
    let behind = pooler.clone();
    let hold_up =
        move || behind.server().psql("BEGIN; LOCK TABLE latchwork_lock; SELECT pg_sleep(2); COMMIT");
    let holding_up = tokio::task::spawn_blocking(hold_up);
    let until_one = |of: &str| {
        while pooler.server().psql(&format!("SELECT count(*) FROM {of}")) != "1" {
            assert!(!holding_up.is_finished(), "there is never one of {of}");
        }
    };
    until_one("pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'latchwork_lock'::regclass");
    let waiting = tokio::spawn(async move { other.lock("x").try_acquire().await });
    until_one("pg_locks WHERE NOT granted");
    // The connection on which everything was prepared has something to do.
    let error = mistaken.lock("x").try_acquire().await.expect_err("nothing is prepared on the next one");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("pooler=yes"), "{error}");
    let guard = waiting.await.expect("no panic").expect("an answer").expect("it is free");
    guard.release().await.expect("held");
    let error = connect(&url("pooler=perhaps")).await.expect_err("no choice");
    assert!(error.to_string().contains("pooler= takes one of auto, yes, no"), "{error}");
}
