//! `scheme=insert` beside services that use the same table by plain SQL.

use std::time::Duration;

use latchwork::engine::{Claim, Engine, Verdict};
use latchwork::engines::postgres::PostgresInsert;
use latchwork::{ErrorKind, LockName, Loss, connect};
use testkit::history::Fault;
use testkit::plain_sql_client::PlainSqlClient;
use testkit::scenarios::sql::shared::{self, AGE, TABLE};
use testkit::servers::{PostgresOptions, PostgresServer};
use testkit::shim::Clocks;

use super::harness::{LOCK, LONG, PostgresHarness, SOON, now, pause, take};

fn url(harness: &PostgresHarness) -> String {
    harness.server.url(harness.server.address(), &shared::options())
}

fn service<'a>(harness: &'a PostgresHarness, holder: &'a str) -> PlainSqlClient<'a, PostgresServer> {
    shared::service(&harness.server, holder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_excluded_for_as_long_as_our_client_holds() {
    let harness = PostgresHarness::new();
    shared::a_service_is_excluded_for_as_long_as_our_client_holds(&harness, &*harness.server, &url(&harness))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_is_excluded_until_the_service_releases_or_its_row_is_too_old() {
    let harness = PostgresHarness::new();
    let url = url(&harness);
    shared::our_client_is_excluded_until_the_service_releases_or_its_row_is_too_old(
        &harness,
        &*harness.server,
        &url,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn services_and_clients_take_turns_one_at_a_time() {
    let harness = PostgresHarness::new();
    shared::services_and_clients_take_turns_one_at_a_time(&*harness.server, &url(&harness)).await;
}

/// The lease is shorter than the age, so the row looks older than it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_of_ours_expires_for_a_service_at_the_end_of_its_lease() {
    let harness = PostgresHarness::new();
    let engine = PostgresInsert::connect(&url(&harness).parse().expect("a valid URL"))
        .await
        .expect("the process runs");
    for ttl in [AGE / 4, 2 * AGE].map(Duration::from_millis) {
        let service = service(&harness, "host-7");
        let claim = Claim::new(LockName::new(LOCK).expect("a good name"), ttl);
        let sent = now();
        assert!(matches!(engine.claim(&claim).await.expect("an answer"), Verdict::Granted(_)));
        while !service.take() {
            pause(50).await;
        }
        assert!(now().since(sent) >= ttl, "not before the lease is over");
        assert!(now().since(sent) < ttl + SOON);
        service.release();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_row_was_deleted_is_told_and_does_no_harm() {
    let harness = PostgresHarness::new();
    let client = connect(&url(&harness)).await.expect("the process runs");
    let guard = client.lock(LOCK).ttl(Duration::from_millis(AGE)).acquire().await.expect("free");
    harness.server.psql(&format!("DELETE FROM {TABLE}"));
    let service = service(&harness, "host-7");
    assert!(service.take());
    let loss = tokio::time::timeout(SOON, guard.lost()).await.expect("at the next renewal");
    assert_eq!(loss, Loss::Removed);
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(service.holder(), "host-7");
}

/// The service switches to our client, under the holder name that it has always had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_takes_over_from_the_service_of_the_same_name_and_from_no_other() {
    let harness = PostgresHarness::new();
    let client = connect(&url(&harness)).await.expect("the process runs");
    let service = service(&harness, "host-7");
    assert!(service.take());
    for owner in ["host", "host-70", "HOST-7"] {
        let lock = client.lock(LOCK).owner(owner);
        assert!(lock.try_acquire().await.expect("an answer").is_none(), "{owner}");
    }
    let guard = client.lock(LOCK).owner("host-7").try_acquire().await.expect("an answer").expect("its own");
    service.release();
    assert!(service.holder().starts_with("host-7#"), "the old delete finds nothing");
    guard.release().await.expect("held");
    assert!(service.take(), "and it is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_though_rows_are_deleted_whatever_the_servers_clock_shows() {
    let clocks = Clocks::new();
    let harness = PostgresHarness::with(PostgresOptions { clocks: Some(&clocks), ..Default::default() });
    let client = harness.connect(&url(&harness)).await;
    let (mut newest, hour) = (None, 3_600_000);
    for offset in [0, hour, 0, -hour] {
        harness.inject(Fault::ClockStep, || clocks.move_wall(offset));
        for _ in 0..2 {
            let guard = take(&client.lock(LOCK)).await;
            let token = guard.token().ok();
            assert!(token > newest, "{token:?} after {newest:?}");
            newest = token;
            guard.release().await.expect("held");
            let service = service(&harness, "host-7");
            assert!(service.take(), "the lock is handed over");
            service.release();
        }
    }
    harness.judge(&[client], SOON).await;
}

/// A table that others created long ago, with the necessary columns and more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_others_created_is_used_unchanged_and_its_limits_are_reported() {
    let harness = PostgresHarness::new();
    harness.server.psql(&format!(
        "CREATE TABLE {TABLE} (id serial PRIMARY KEY, unique_mutex varchar(64) UNIQUE, holder_id varchar(64), \
         create_time timestamp(0) DEFAULT now())"
    ));
    let client = harness.connect(&url(&harness)).await;
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    assert!(!service(&harness, "host-7").take());
    // The column has whole seconds: a promised lease never ends later than the written time.
    let left = format!("extract(epoch FROM create_time + interval '{AGE} ms' - clock_timestamp())");
    let written: f64 = harness.server.psql(&format!("SELECT {left} FROM {TABLE}")).parse().expect("a number");
    assert!(guard.lease_end().since(now()).as_secs_f64() <= written + 0.1, "{written}");
    guard.release().await.expect("held");
    let error =
        client.client().lock("x".repeat(65)).try_acquire().await.expect_err("too long for the column");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("character varying(64)"), "{error}");
    harness.server.psql(&format!("ALTER TABLE {TABLE} DROP CONSTRAINT {TABLE}_unique_mutex_key"));
    let error = client.client().lock(LOCK).try_acquire().await;
    let error = error.expect_err("two clients could insert");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for options in ["max-age=2s", "scheme=insert&max-age=never", "scheme=delete"] {
        let error = connect(&harness.server.url(harness.server.address(), options))
            .await
            .expect_err("the table does not exist");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{options}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_on_the_two_tables_are_enough() {
    let harness = PostgresHarness::new();
    harness.server.psql("CREATE USER app");
    let url = format!("postgres://app@{}/postgres?scheme=insert", harness.server.address());
    let error = connect(&url).await.expect_err("there are no tables");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    harness.server.psql(error.to_string().split_once("run:\n").expect("what to run").1);
    harness.server.psql(testkit::fixtures::PostgresInsertFixture::GRANT);
    let client = harness.connect(&url).await;
    for name in ["'; DROP TABLE latchwork_mutex; --", "$1", "%", "a\u{308}", "{table}"] {
        let guard = take(&client.lock(name).with(|lock| lock.owner(format!("{name}' OR 1=1")))).await;
        guard.release().await.expect("held");
    }
    harness.judge(&[client], SOON).await;
}
