//! `scheme=insert` beside services that use the same table by plain SQL.

use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::{ErrorKind, connect};
use testkit::harness::{LOCK, LONG, now};
use testkit::scenarios::sql::shared::{self, TABLE};
use testkit::servers::SqlSession;

use super::harness::MariadbHarness;

/// How long services and clients take turns on one lock.
const MIXED_FOR: Duration = Duration::from_secs(3);

fn url(harness: &MariadbHarness) -> String {
    harness.server.url(harness.server.address(), &shared::options())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_excluded_for_as_long_as_our_client_holds() {
    let harness = MariadbHarness::new();
    shared::a_service_is_excluded_for_as_long_as_our_client_holds(&harness, &harness.server, &url(&harness))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_is_excluded_until_the_service_releases_or_its_row_is_too_old() {
    let harness = MariadbHarness::new();
    let url = url(&harness);
    shared::our_client_is_excluded_until_the_service_releases_or_its_row_is_too_old(
        &harness,
        &harness.server,
        &url,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn services_and_clients_take_turns_one_at_a_time() {
    let harness = MariadbHarness::new();
    shared::services_and_clients_take_turns_one_at_a_time(&harness.server, &url(&harness)).await;
}

/// A table that others created long ago, with the necessary columns and more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_others_created_is_used_unchanged() {
    let harness = MariadbHarness::new();
    harness.server.sql(&format!(
        "CREATE TABLE {TABLE} (id BIGINT PRIMARY KEY AUTO_INCREMENT, unique_mutex VARCHAR(64) NOT NULL UNIQUE, \
         holder_id VARCHAR(64), create_time DATETIME DEFAULT CURRENT_TIMESTAMP)"
    ));
    let client = connect(&url(&harness)).await.expect("the process runs");
    let guard = client.lock(LOCK).acquire().await.expect("free");
    let before = guard.token().expect("tokens");
    assert!(!shared::service(&harness.server, "host-7").take());
    guard.release().await.expect("held");
    let again = client.lock(LOCK).acquire().await.expect("free");
    assert!(again.token().expect("tokens") > before);
    again.release().await.expect("held");
    let error = client.lock("x".repeat(65)).try_acquire().await.expect_err("too long for the column");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// With a primary key of its own the table has two indexes, which is enough for a deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_clients_never_make_the_release_of_a_service_fail() {
    let harness = MariadbHarness::new();
    harness.server.sql(&format!(
        "CREATE TABLE {TABLE} (id BIGINT PRIMARY KEY AUTO_INCREMENT, unique_mutex VARCHAR(64) NOT NULL UNIQUE, \
         holder_id VARCHAR(64), create_time DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6))"
    ));
    let end = now().after(MIXED_FOR);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = connect(&url(&harness)).await.expect("the process runs");
        clients.push(tokio::spawn(async move {
            let mut turns = 0;
            while now() < end {
                // A try each time: waiters poll less and less often, and would rarely collide with the
                // services.
                if let Some(guard) = client.lock(LOCK).ttl(LONG).try_acquire().await.expect("an answer") {
                    guard.release().await.expect("held");
                    turns += 1;
                }
            }
            turns
        }));
    }
    let services: Vec<_> = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let sessions = ["host-0", "host-1"].map(|host| (host, harness.server.forgiving_session()));
            let services =
                sessions.map(|(host, session)| scope.spawn(move || turns_of_a_service(session, host, end)));
            services.into_iter().map(|service| service.join().expect("no panic")).collect()
        })
    });
    let mut turns = 0;
    for client in clients {
        turns += client.await.expect("no panic");
    }
    let (taken, failed) =
        services.iter().fold((0, 0), |sum, (taken, failed)| (sum.0 + taken, sum.1 + failed));
    println!(
        "{turns} turns of ours, {taken} of services, {failed} failed releases, {} deadlocks",
        harness.server.deadlocks()
    );
    assert!(turns > 0 && taken > 0, "{turns} turns of ours, {taken} of services");
    assert_eq!(failed, 0, "releases of services were refused; they had {taken} turns, and we {turns}");
}

/// The number of turns that the service had until `end`, and of its deletes that were refused.
fn turns_of_a_service(mut session: SqlSession, host: &str, end: Moment) -> (u32, u32) {
    let insert = format!(
        "INSERT INTO {TABLE} (unique_mutex, holder_id) VALUES ('{LOCK}', '{host}'); SELECT ROW_COUNT()"
    );
    let delete = format!(
        "DELETE FROM {TABLE} WHERE unique_mutex = '{LOCK}' AND holder_id = '{host}'; SELECT ROW_COUNT()"
    );
    let (mut turns, mut failed) = (0, 0);
    while now() < end {
        if session.ask(&insert) == "1" {
            turns += 1;
            while session.ask(&delete) != "1" {
                failed += 1;
            }
        }
    }
    (turns, failed)
}

/// Without a unique index, two clients could insert.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_a_unique_index_is_refused() {
    let harness = MariadbHarness::new();
    let columns = "unique_mutex VARCHAR(64) NOT NULL, holder_id VARCHAR(64), create_time DATETIME";
    for rest in [
        ") ENGINE=InnoDB",
        ", KEY (unique_mutex)) ENGINE=InnoDB",
        ", UNIQUE KEY (unique_mutex, holder_id)) ENGINE=InnoDB",
        ", UNIQUE KEY (unique_mutex(8))) ENGINE=InnoDB",
        ", UNIQUE KEY (unique_mutex)) ENGINE=MyISAM",
    ] {
        harness.server.sql(&format!("DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} ({columns}{rest}"));
        let error = connect(&url(&harness)).await.expect_err(rest);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{rest}: {error}");
        assert!(error.to_string().contains("unique key"), "{rest}: {error}");
    }
}
