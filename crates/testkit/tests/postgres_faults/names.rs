//! Names with special characters.

use testkit::scenarios::sql::names;

use super::harness::PostgresHarness;

/// Frameworks and cloud consoles use the other scheme.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheme_postgresql_is_an_alias_of_postgres() {
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
async fn hostile_names_are_ordinary_names() {
    names::hostile_names_are_ordinary_names(&PostgresHarness::new()).await;
}
