//! Users without the necessary rights, and users whose names contain special characters.

use latchwork::{Client, Error, ErrorKind, Result, connect};
use testkit::scenarios::sql::forgotten;
use testkit::scenarios::sql::forgotten_tokens::{self, OF_INSERT, OF_SESSION};

use super::harness::{LOCK, PostgresHarness, SOON, take};

fn url_of(harness: &PostgresHarness, user: &str, options: &str) -> String {
    format!("postgres://{user}@{}/postgres?{options}", harness.server.address())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_create_the_tables_is_told_the_sql_and_needs_no_more_than_the_grant() {
    let harness = PostgresHarness::new();
    harness.server.psql("CREATE USER app; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let error = connect(&url_of(&harness, "app", "")).await.expect_err("there are no tables");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    harness.server.psql(&without_grants(&sql_of(&error)));
    let error = connect(&url_of(&harness, "app", "")).await.expect("they are there");
    let error = error.lock("x").acquire().await.expect_err("not granted");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    harness.server.psql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_lock, latchwork_claim TO app");
    let client = harness.connect(&url_of(&harness, "app", "")).await;
    take(&client.lock("x")).await.release().await.expect("held");
    harness.judge(&[client], SOON).await;
}

/// The part of an error that a superuser pastes into psql.
#[track_caller]
fn sql_of(error: &Error) -> String {
    // Without its schema, the name of a table is wrong.
    assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Invalid), "{error}");
    let sql = error.sql().unwrap_or_else(|| panic!("no SQL: {error}"));
    assert!(error.to_string().ends_with(&format!("run:\n{sql}")), "{error}");
    sql.to_owned()
}

fn without_grants(sql: &str) -> String {
    sql.lines().filter(|line| !line.starts_with("GRANT")).collect::<Vec<_>>().join("\n")
}

async fn lock_once(url: &str) -> Result<Client> {
    let client = connect(url).await?;
    client.lock("x").acquire().await?.release().await?;
    Ok(client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sql_of_an_error_pasted_by_a_superuser_lets_the_user_lock_and_use_cells() {
    let harness = PostgresHarness::new();
    harness.server.psql("REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE SCHEMA team");
    for (number, options) in [
        "",
        "table=jobs",
        "table=team.jobs",
        "table=nowhere.jobs",
        "scheme=insert",
        "scheme=insert&table=mutexes",
        "scheme=insert&table=team.mutexes",
        "scheme=session&fenced=always",
        "scheme=session&fenced=always&table=team.jobs",
    ]
    .into_iter()
    .enumerate()
    {
        // The first user finds no tables, the second finds those of the first, which it may not use.
        for user in [format!("app {number}"), format!("order \"{number}\"")] {
            harness.server.psql(&format!("CREATE USER \"{}\"", user.replace('"', "\"\"")));
            let user = user.replace(' ', "%20").replace('"', "%22");
            let url = url_of(&harness, &user, options);
            let error = lock_once(&url).await.expect_err("the user lacks the right");
            harness.server.psql(&sql_of(&error));
            let client = lock_once(&url).await.unwrap_or_else(|error| panic!("{options}: {error}"));
            if !options.contains("session") {
                let cell = client.cell("x");
                let error = cell.update(|_| b"one".to_vec()).await.expect_err("the user lacks the right");
                harness.server.psql(&sql_of(&error));
                let set = cell.update(|_| b"one".to_vec()).await.expect("the user has the right");
                cell.delete_if(set.version).await.expect("the user has the right");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_delete_locks_can_still_lock() {
    let harness = PostgresHarness::new();
    drop(harness.client().await);
    harness.server.psql("CREATE USER app; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    harness.server.psql("GRANT SELECT, INSERT, UPDATE ON latchwork_lock TO app");
    harness.server.psql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_claim TO app");
    forgotten::a_user_who_may_not_delete_locks_can_still_lock(&harness, &url_of(&harness, "app", "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_delete_tokens_can_still_lock() {
    let harness = PostgresHarness::new();
    for tokens in [OF_INSERT, OF_SESSION] {
        let owner =
            connect(&url_of(&harness, "owner", tokens.options)).await.expect("the owner creates the tables");
        owner.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    }
    harness.server.psql("CREATE USER app; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    harness.server.psql("GRANT SELECT, INSERT, UPDATE ON latchwork_mutex_token, latchwork_fence TO app");
    harness.server.psql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_mutex TO app");
    for tokens in [OF_INSERT, OF_SESSION] {
        let url = url_of(&harness, "app", tokens.options);
        forgotten_tokens::a_user_who_may_not_delete_tokens_can_still_lock(&harness, tokens, &url).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_is_named() {
    let harness = PostgresHarness::new();
    let client = harness.client().await;
    take(&client.lock("x")).await.release().await.expect("held");
    harness.server.psql("ALTER SYSTEM SET default_transaction_read_only = on");
    harness.server.psql("SELECT pg_reload_conf()");
    harness.terminate_all();
    let lock = client.lock("x").wait(std::time::Duration::from_secs(1));
    let error = lock.acquire().await.expect_err("the database is read-only");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_databases_and_invalid_table_names_are_refused() {
    let harness = PostgresHarness::new();
    let url = format!("postgres://owner@{}/nowhere", harness.server.address());
    let error = connect(&url).await.expect_err("not there");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for table in ["x;drop", "x%22y", "Upper", "a.b.c", "", "x%20y"] {
        let error =
            connect(&url_of(&harness, "owner", &format!("table={table}"))).await.expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{table}: {error}");
        assert!(error.to_string().contains("table="), "{error}");
    }
}
