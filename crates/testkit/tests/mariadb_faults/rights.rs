//! Users without the necessary rights.

use latchwork::{Client, Effect, Error, ErrorKind, Result, Version, connect};
use testkit::harness::{LOCK, LONG, SOON, take};
use testkit::scenarios::sql::forgotten_tokens::{self, OF_INSERT, OF_SESSION};
use testkit::scenarios::sql::{SqlHarness as _, forgotten};

use super::harness::MariadbHarness;

fn url_of(harness: &MariadbHarness, user: &str, options: &str) -> String {
    format!("mariadb://{user}@{}/locks?{options}", harness.server.address())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_create_the_tables_is_told_the_sql_and_needs_no_more_than_the_grant() {
    let (harness, app) = (MariadbHarness::new(), "app:s3cr%40t");
    let error = connect(&url_of(&harness, app, "")).await.expect_err("there are no tables");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    harness.sql(&without_grants(&sql_of(&error)));
    let error = connect(&url_of(&harness, app, "")).await.expect_err("not granted");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_lock"), "{error}");
    for table in ["latchwork_lock", "latchwork_claim"] {
        harness.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO app@'127.0.0.1'"));
    }
    let client = harness.connect(&url_of(&harness, app, "")).await;
    take(&client.lock("x")).await.release().await.expect("held");
    let cell = client.client().cell("x");
    let error = cell.get().await.expect_err("there is no table of cells");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
    harness.sql(&without_grants(&sql_of(&error)));
    let error = cell.set_if(Version::ABSENT, "x").await.expect_err("not granted");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
    harness.sql("GRANT SELECT, INSERT, UPDATE ON latchwork_cell TO app@'127.0.0.1'");
    let set = cell.update(|_| b"x".to_vec()).await.expect("granted");
    cell.delete_if(set.version).await.expect("granted");
    let error = connect(&url_of(&harness, "app:wrong", "")).await.expect_err("not its password");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // MySQL asks for a password that it has not cached only over TLS, before it says that the password is
    // wrong.
    let hints = ["password in the URL", "caching_sha2_password"];
    assert!(hints.iter().any(|hint| error.to_string().contains(hint)), "{error}");
    harness.judge(&[client], SOON).await;
}

/// The part of an error that an administrator pastes into the command `mariadb`.
#[track_caller]
fn sql_of(error: &Error) -> String {
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
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
async fn the_sql_of_an_error_pasted_by_an_administrator_lets_the_user_lock_and_use_cells() {
    let harness = MariadbHarness::new();
    harness.sql("CREATE DATABASE team");
    for (number, (database, options)) in [
        ("locks", ""),
        ("locks", "table=jobs"),
        ("locks", "table=team.jobs"),
        ("team", ""),
        ("new-one", ""),
        ("locks", "scheme=insert"),
        ("locks", "scheme=insert&table=mutexes"),
        ("locks", "scheme=session&fenced=always"),
    ]
    .into_iter()
    .enumerate()
    {
        // The first user finds no tables, the second finds those of the first, which it may not use.
        for (user, host) in [(format!("app {number}"), "%"), (format!("it's {number}"), "127.0.0.1")] {
            let account = format!("'{}'@'{host}'", user.replace('\'', "''"));
            harness.sql(&format!("CREATE USER {account}"));
            if options.contains("team.") {
                harness.sql(&format!("GRANT SELECT ON locks.door TO {account}"));
            }
            let user = user.replace(' ', "%20").replace('\'', "%27");
            let url = format!("mariadb://{user}@{}/{database}?{options}", harness.server.address());
            let error = lock_once(&url).await.expect_err("the user lacks the right");
            harness.sql(&sql_of(&error));
            let client = lock_once(&url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
            if !options.contains("session") {
                let cell = client.cell("x");
                let error = cell.update(|_| b"one".to_vec()).await.expect_err("the user lacks the right");
                harness.sql(&sql_of(&error));
                let set = cell.update(|_| b"one".to_vec()).await.expect("the user has the right");
                cell.delete_if(set.version).await.expect("the user has the right");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_delete_locks_can_still_lock() {
    let harness = MariadbHarness::new();
    drop(harness.observer().await);
    harness.sql("GRANT SELECT, INSERT, UPDATE ON latchwork_lock TO app@'127.0.0.1'");
    harness.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_claim TO app@'127.0.0.1'");
    forgotten::a_user_who_may_not_delete_locks_can_still_lock(
        &harness,
        &url_of(&harness, "app:s3cr%40t", ""),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_delete_tokens_can_still_lock() {
    let (harness, app) = (MariadbHarness::new(), "app:s3cr%40t");
    for tokens in [OF_INSERT, OF_SESSION] {
        let owner =
            connect(&url_of(&harness, "owner", tokens.options)).await.expect("the owner creates the tables");
        owner.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    }
    for table in ["latchwork_mutex_token", "latchwork_fence"] {
        harness.sql(&format!("GRANT SELECT, INSERT, UPDATE ON {table} TO app@'127.0.0.1'"));
    }
    harness.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON latchwork_mutex TO app@'127.0.0.1'");
    for tokens in [OF_INSERT, OF_SESSION] {
        let url = url_of(&harness, app, tokens.options);
        forgotten_tokens::a_user_who_may_not_delete_tokens_can_still_lock(&harness, tokens, &url).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_is_named_and_is_used_again_when_it_accepts_writes() {
    let harness = MariadbHarness::new();
    let client = harness.observer().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    harness.sql("SET GLOBAL read_only = 1");
    for lock in [client.lock(LOCK), client.lock("never used")] {
        let error = lock.wait(SOON / 5).acquire().await.expect_err("the database is read-only");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(error.to_string().contains("read-only") && error.to_string().contains("primary"), "{error}");
    }
    harness.sql("SET GLOBAL read_only = 0");
    take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_urls_are_refused_with_the_offending_part() {
    let harness = MariadbHarness::new();
    let nowhere = format!("mysql://owner@{}/nowhere", harness.server.address());
    let none = format!("mysql://owner@{}", harness.server.address());
    let scheme = url_of(&harness, "owner", "scheme=rows");
    let unknown = url_of(&harness, "owner", "tabel=x");
    for (url, kind, word) in [
        (nowhere, ErrorKind::Denied, "nowhere"),
        (none, ErrorKind::Invalid, "database"),
        (scheme, ErrorKind::Invalid, "scheme= takes one of row"),
        (unknown, ErrorKind::Invalid, "table"),
    ] {
        let error = connect(&url).await.expect_err("the URL cannot work");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    for table in ["x;drop", "x%22y", "x%60y", "Upper", "a.b.c", "", "x%20y"] {
        let error =
            connect(&url_of(&harness, "owner", &format!("table={table}"))).await.expect_err("no name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{table}: {error}");
        assert!(error.to_string().contains("table="), "{error}");
    }
}
