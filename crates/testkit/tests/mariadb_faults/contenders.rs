//! Many clients contend for one lock.

use latchwork::ErrorKind;
use testkit::harness::{LOCK, SOON, now};
use testkit::plain_sql_client::SqlServer as _;
use testkit::scenarios::sql::SqlHarness as _;
use testkit::workload::processes::ContendingProcesses;

use super::harness::MariadbHarness;

/// On a server with default settings, which accepts 151 connections.
const CONTENDERS: ContendingProcesses = ContendingProcesses { processes: 4, clients: 25, turns: 10 };
const MOST_CONNECTIONS: u64 = 151;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_contenders_in_four_processes_need_a_connection_each_and_have_their_turns_in_order() {
    let harness = MariadbHarness::new();
    let contest = CONTENDERS.taking(500).compete(&harness.direct_url()).await;
    let most = harness.server.most_connections();
    println!("at most {most} connections");
    assert!((100..=MOST_CONNECTIONS).contains(&most), "{most}");
    let client = harness.observer().await;
    contest.is_judged(client.client());
    contest.is_fair();
    assert!(harness.state(&client).await.is_none(), "{LOCK} is free");
    println!("{} deadlocks, which were repeated", harness.server.deadlocks());
}

/// This is the default from MariaDB 11.6.2 on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_wait_for_changing_rows_under_innodb_snapshot_isolation() {
    const FEW: ContendingProcesses = ContendingProcesses { processes: 2, clients: 10, turns: 10 };
    let harness = MariadbHarness::new();
    let set = harness.server.ask("SET GLOBAL innodb_snapshot_isolation = ON");
    assert!(set.is_ok() || !harness.server.sql("SELECT version()").contains("MariaDB"), "{set:?}");
    let contest = FEW.compete(&harness.direct_url()).await;
    let client = harness.observer().await;
    contest.is_judged(client.client());
    contest.is_fair();
}

/// Two clients contend for the same sixty-four locks: each has four connections for its requests, and one
/// that renews.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_of_a_client_share_a_handful_of_connections() {
    let harness = MariadbHarness::new();
    let (clients, mut tasks) = (harness.recorded_clients(2).await, Vec::new());
    for client in &clients {
        for number in 0..64 {
            let lock = client.lock(&format!("lock {number}")).with(|lock| lock.local_handoff(false));
            tasks.push(tokio::spawn(async move {
                for _ in 0..3 {
                    let guard = lock.acquire().await.expect("its turn comes");
                    let lease_end = guard.lease_end();
                    // A handed-over lock has a lease of 3 s at first. Behind so many others, its release can
                    // be too late; no other error is possible.
                    if let Err(error) = guard.release().await {
                        assert!(error.kind() == ErrorKind::Lost && now() > lease_end, "{error}");
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let most = harness.server.most_connections();
    println!("at most {most} connections");
    // And the one that counts the connections.
    assert!(most <= 2 * (4 + 1) + 1, "{most}");
    harness.judge(&clients, SOON).await;
}
