//! A pooler that assigns every transaction another of its connections.

use std::sync::Arc;

use latchwork::{Effect, ErrorKind, connect};
use testkit::servers::Pgbouncer;
use testkit::workload::processes::ContendingProcesses;
use tokio::task::JoinHandle;

use super::harness::{LOCK, SOON, now};

const CONTENDERS: ContendingProcesses = ContendingProcesses { processes: 3, clients: 5, turns: 8 };

/// More clients than the pooler has connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_behind_a_pooler_are_granted_their_turns_in_order() {
    let pooler = Pgbouncer::start();
    let url = pooler.server().url(pooler.address(), "");
    let contest = CONTENDERS.compete(&url).await;
    let client = connect(&url).await.expect("the server runs");
    assert!(!client.guarantees().pushes, "there are no notifications behind a pooler");
    contest.is_judged(&client);
    contest.is_fair();
}

/// With the answer to a statement the pooler assigns its connection to another client, and what it has
/// forwarded of the next statement by then stays there in two halves (pgbouncer's issue 759). So nothing may
/// follow a statement before that is answered: while the server stalls, each of the pooler's five connections
/// has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tasks_behind_a_pooler_never_send_into_each_others_answers() {
    let pooler = Arc::new(Pgbouncer::start());
    let client = connect(&pooler.server().url(pooler.address(), "")).await.expect("the server runs");
    let all_take_turns = async |round: &str| {
        let turns = (0..100).map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                let name = format!("{task}-{}", "x".repeat(400));
                let guard = client.lock(&name).try_acquire().await.map_err(|error| error.to_string())?;
                guard.ok_or("taken")?.release().await.map_err(|error| error.to_string())
            })
        });
        for turn in turns.collect::<Vec<_>>() {
            let turn: Result<_, String> = turn.await.expect("no panic");
            turn.unwrap_or_else(|error| panic!("{round}: {error}"));
        }
    };
    for round in 0..10 {
        all_take_turns(&format!("round {round}")).await;
    }
    let standstill = Standstill::of(&pooler).await;
    tokio::join!(all_take_turns("at a standstill"), standstill.until(5, STATEMENTS_THAT_WAIT));
}

const STATEMENTS_THAT_WAIT: &str = "pg_locks WHERE NOT granted";

/// Locks the tables for two seconds.
struct Standstill {
    pooler: Arc<Pgbouncer>,
    holding_up: JoinHandle<String>,
}

impl Standstill {
    async fn of(pooler: &Arc<Pgbouncer>) -> Self {
        let (pooler, behind) = (pooler.clone(), pooler.clone());
        let hold_up =
            move || behind.server().psql("BEGIN; LOCK TABLE latchwork_lock; SELECT pg_sleep(2); COMMIT");
        let standstill = Self { pooler, holding_up: tokio::task::spawn_blocking(hold_up) };
        let held = "pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'latchwork_lock'::regclass";
        standstill.until(1, held).await;
        standstill
    }

    /// Waits until the server reports this many of something.
    async fn until(&self, count: usize, of: &'static str) {
        let count = count.to_string();
        loop {
            let pooler = self.pooler.clone();
            let look = move || pooler.server().psql(&format!("SELECT count(*) FROM {of}"));
            if tokio::task::spawn_blocking(look).await.expect("no panic") == count {
                return;
            }
            assert!(!self.holding_up.is_finished(), "there are never {count} of {of}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_denies_the_pooler_is_refused_behind_one() {
    let pooler = Arc::new(Pgbouncer::start());
    let url = |options: &str| pooler.server().url(pooler.address(), options);
    let other = connect(&url("")).await.expect("the server is reachable");
    // Before it has them all, the pooler may have no other connection to assign to the next transaction.
    pooler.opens_all_connections();
    let mistaken = connect(&url("pooler=no")).await.expect("the server is reachable");
    let standstill = Standstill::of(&pooler).await;
    let waiting = tokio::spawn(async move { other.lock("x").try_acquire().await });
    standstill.until(1, STATEMENTS_THAT_WAIT).await;
    // The connection on which everything was prepared is busy.
    let error = mistaken.lock("x").try_acquire().await.expect_err("nothing is prepared on the next one");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("pooler=yes"), "{error}");
    let guard = waiting.await.expect("no panic").expect("an answer").expect("it is free");
    guard.release().await.expect("held");
    let error = connect(&url("pooler=perhaps")).await.expect_err("no choice");
    assert!(error.to_string().contains("pooler= takes one of auto, yes, no"), "{error}");
}

/// The limit is sent with each statement, because the session belongs to another client the next moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_behind_a_pooler_waits_for_a_row_for_three_seconds() {
    let pooler = Pgbouncer::start();
    let client = connect(&pooler.server().url(pooler.address(), "")).await.expect("the server runs");
    client.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    let mut other = pooler.server().session();
    assert_eq!(other.ask("BEGIN; UPDATE latchwork_lock SET ticket = ticket; SELECT 1"), "1");
    let begun = now();
    let error = client.lock(LOCK).try_acquire().await.expect_err("the outcome is unknown");
    let waited = now().since(begun);
    println!("after {waited:?}: {error}");
    assert!(waited < SOON, "{waited:?}: {error}");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
    drop(other);
    client.lock(LOCK).wait(SOON).acquire().await.expect("free").release().await.expect("held");
}
