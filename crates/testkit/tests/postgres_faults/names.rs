//! Names that try to be more than names.

use testkit::scenarios::sql::names;

use super::harness::PostgresHarness;

/// Frameworks and cloud consoles write the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_is_another_spelling_of_postgres() {
    use testkit::servers::{PostgresOptions, PostgresServer};
    let server = PostgresServer::start(PostgresOptions::default());
    let url = server.url(server.address(), "");
    for options in ["", "scheme=session", "scheme=insert"] {
        let url = format!("{url}{options}");
        let one = latchwork::connect(&url).await.expect("it answers");
        let other = latchwork::connect(&url.replace("postgres:", "postgresql:")).await.expect("it answers");
        let guard = one.lock("x").acquire().await.expect("free");
        assert!(other.lock("x").try_acquire().await.expect("it answers").is_none(), "{options}");
        guard.release().await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_names() {
    names::hostile_names_are_names(&PostgresHarness::new()).await;
}
