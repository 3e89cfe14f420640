//! Many clients contend for one lock.

use testkit::servers::PostgresOptions;
use testkit::workload::processes::ContendingProcesses;

use super::harness::{LOCK, LONG, PostgresHarness, SOON, pause, take};

/// As many as a server with default settings accepts, which reserves three of its 100 connections for
/// superusers.
const CONTENDERS: ContendingProcesses = ContendingProcesses { processes: 4, clients: 24, turns: 10 };
const MOST_CONNECTIONS: usize = 97;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_contenders_in_four_processes_need_a_connection_each_and_have_their_turns_in_order() {
    let options = PostgresOptions { most_connections: 100, ..PostgresOptions::default() };
    let harness = PostgresHarness::with(options);
    harness.server.psql("CREATE USER app; GRANT CREATE ON SCHEMA public TO app");
    let url = format!("postgres://app@{}/postgres", harness.server.address());
    let contest = tokio::spawn({
        let url = url.clone();
        async move { CONTENDERS.taking(960).compete(&url).await }
    });
    let mut most = 0;
    while !contest.is_finished() {
        most = most.max(harness.connections());
        pause(50).await;
    }
    println!("at most {most} connections");
    assert!((CONTENDERS.processes * CONTENDERS.clients..=MOST_CONNECTIONS).contains(&most), "{most}");
    let contest = contest.await.expect("no client saw a deadlock or the connection limit");
    let client = harness.connect(&url).await;
    contest.is_judged(client.client());
    contest.is_fair();
    assert!(harness.state(&client).await.is_none(), "{LOCK} is free");
    let deadlocks = harness.server.psql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'");
    assert_eq!(deadlocks, "0");
}

/// One connection serves all requests, until one of them has to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_transaction_delays_no_other_lock_of_its_client() {
    let harness = PostgresHarness::new();
    let (client, other) = (harness.client().await, harness.client().await);
    let held = take(&client.lock(LOCK).ttl(LONG)).await;
    let lock = other.lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&client, 1).await;
    let server = harness.server.clone();
    let hold_up = "BEGIN; SELECT name FROM latchwork_lock FOR UPDATE; SELECT pg_sleep(2); COMMIT";
    let holding_up = tokio::task::spawn_blocking(move || server.psql(hold_up));
    harness.until_busy_with("pg_sleep").await;
    let releasing = tokio::spawn(async move { held.release().await });
    harness.until_busy_with("FROM latchwork_lock WHERE").await;
    take(&client.lock("another")).await.release().await.expect("held");
    assert!(!holding_up.is_finished(), "the transaction still waits");
    holding_up.await.expect("no panic");
    releasing.await.expect("no panic").expect("held");
    waiting.await.expect("no panic").release().await.expect("held");
    assert_eq!(harness.connections(), 3, "one each, and a spare one");
    harness.judge(&[client, other], SOON).await;
}
