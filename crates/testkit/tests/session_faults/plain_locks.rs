//! Locks that others take by plain SQL, with the key computed as in docs/interop.md.

use std::process::Command;

use super::harness::{LONG, Server, SessionHarness, on_both};

on_both! {
    plain_sql_with_the_documented_key_and_ours_exclude_each_other;
    plain_sql_with_another_key_and_ours_do_not_exclude_each_other;
}

const PAGE: &str = include_str!("../../../../docs/interop.md");
/// The name on the page.
const NAME: &str = "orders/42";
/// One has a key with the highest bit set, one is not ASCII, one begins with digits, and one has characters
/// that `printf` replaces.
const NAMES: [&str; 5] = [NAME, "orders/43", "größe 🔒", "42", "100%s"];

/// The block of code on the page that has this comment as its first line.
fn block(first: &str) -> String {
    let block = PAGE.split("```").find_map(|block| block.split_once('\n')?.1.strip_prefix(first));
    block.unwrap_or_else(|| panic!("no block {first:?} in docs/interop.md")).trim().to_owned()
}

/// The three statements of the page for this server: a try, a wait, and a release.
fn statements(harness: &SessionHarness, name: &str) -> [String; 3] {
    let block = match &harness.server {
        Server::Postgres(_) => block("-- PostgreSQL\n"),
        Server::Mariadb(_) => block("-- MySQL, MariaDB\n"),
    };
    let statements: Vec<_> = block.split(';').map(|statement| statement.trim().replace('\n', " ")).collect();
    assert!(statements.iter().take(3).all(|statement| statement.contains(NAME)), "{statements:?}");
    std::array::from_fn(|at| statements[at].replace(NAME, name))
}

async fn plain_sql_with_the_documented_key_and_ours_exclude_each_other(harness: SessionHarness) {
    let client = harness.direct_client("").await;
    let (mut theirs, is_postgres) = match &harness.server {
        Server::Postgres(server) => (server.session(), true),
        Server::Mariadb(server) => (server.session(), false),
    };
    let [yes, no] = if is_postgres { ["t", "f"] } else { ["1", "0"] };
    for name in NAMES {
        let [try_it, wait, unlock] = statements(&harness, name);
        let lock = client.lock(name).ttl(LONG);
        for take in [&try_it, &wait] {
            assert_ne!(theirs.ask(take), no, "{name}: it is free");
            assert!(
                lock.try_acquire().await.expect("it answers").is_none(),
                "{name}: plain SQL excludes our client"
            );
            assert_eq!(theirs.ask(&unlock), yes, "{name}");
        }
        let guard = lock.try_acquire().await.expect("it answers").expect("free");
        assert_eq!(theirs.ask(&try_it), no, "{name}: our client excludes plain SQL");
        guard.release().await.expect("held");
        assert_eq!([theirs.ask(&try_it), theirs.ask(&unlock)], [yes, yes], "{name}: free again");
        if is_postgres {
            let in_transaction = try_it.replace("_advisory_lock", "_advisory_xact_lock");
            assert_eq!(theirs.ask(&format!("BEGIN; {in_transaction}")), yes);
            assert!(
                lock.try_acquire().await.expect("it answers").is_none(),
                "{name}: until its transaction ends"
            );
            theirs.ask("ROLLBACK; SELECT 1");
            lock.try_acquire().await.expect("it answers").expect("free").release().await.expect("held");
        }
    }
}

async fn plain_sql_with_another_key_and_ours_do_not_exclude_each_other(harness: SessionHarness) {
    let client = harness.direct_client("").await;
    let lock = client.lock(NAME).ttl(LONG);
    let (mut theirs, take, yes) = match &harness.server {
        Server::Postgres(server) => (server.session(), "SELECT pg_try_advisory_lock(42)".to_owned(), "t"),
        Server::Mariadb(server) => (server.session(), format!("SELECT GET_LOCK('{NAME}', 0)"), "1"),
    };
    assert_eq!(theirs.ask(&take), yes);
    let guard = lock.try_acquire().await.expect("it answers").expect("the other program has another lock");
    guard.release().await.expect("held");
}

/// For clients that cannot compute the key in SQL.
#[test]
fn a_shell_and_python_compute_the_key_of_an_advisory_lock_with_its_sign() {
    let script = block("# The key of a name, in a shell\n");
    let server = testkit::servers::PostgresServer::start(testkit::servers::PostgresOptions::default());
    let block_text = block("-- PostgreSQL\n");
    let expression = block_text.split_once("pg_try_advisory_lock(").expect("the statement takes the lock").1;
    let expression = expression.split_once(");").expect("the expression ends").0;
    let python = block("import hashlib\n");
    let mut signs = [false, false];
    for name in NAMES {
        let key = server.psql(&format!("SELECT {}", expression.replace(NAME, name)));
        let python = format!("import hashlib\nprint({})", python.replace(NAME, name));
        for (shell, script) in
            [("bash", script.replace(NAME, name)), ("sh", script.replace(NAME, name)), ("python3", python)]
        {
            let output = Command::new(shell).args(["-c", &script]).output().expect("the process starts");
            let computed = String::from_utf8(output.stdout).expect("digits");
            assert_eq!(computed.trim(), key, "{name} in {shell}");
        }
        signs[usize::from(key.starts_with('-'))] = true;
    }
    assert_eq!(signs, [true, true], "a positive and a negative one were compared");
}
