//! Servers on which a session lock would not exclude anything.

use latchwork::ErrorKind;
use testkit::servers::{MariadbOptions, MariadbServer, Pgbouncer};

use super::harness::{LOCK, LONG, Server, SessionHarness, connect, hold, pause};

async fn refused(url: &str, why: &str) {
    let error = latchwork::connect(url).await.expect_err("the request is refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_and_one_in_session_mode_is_not() {
    let url = |pooler: &Pgbouncer| pooler.server().url(pooler.address(), "scheme=session");
    let by_transaction = Pgbouncer::start();
    for _ in 0..5 {
        refused(&url(&by_transaction), "pooler").await;
    }
    let by_session = Pgbouncer::start_in("session", Pgbouncer::CONNECTIONS);
    let client = connect(&url(&by_session)).await;
    hold(&client, LONG).await.release().await.expect("held");
}

/// With two server connections, the first client gets its own back while the second one has a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_with_few_connections_is_refused() {
    for connections in 1..=3 {
        let pooler = Pgbouncer::start_in("transaction", connections);
        // Locks as rows work behind it. It opens connections as long as it has a client.
        let _client = connect(&pooler.server().url(pooler.address(), "")).await;
        pooler.opens_all_connections();
        for _ in 0..5 {
            refused(&pooler.server().url(pooler.address(), "scheme=session"), "pooler").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_refused() {
    let harness = SessionHarness::postgres();
    let Server::Postgres(server) = &harness.server else { unreachable!("it is one") };
    server.kill();
    std::fs::write(server.folder().join("data/standby.signal"), "").expect("the folder is ours");
    server.restart();
    refused(&harness.direct_url(""), "standby").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_is_refused() {
    let harness = SessionHarness::mariadb();
    harness.sql("SET GLOBAL read_only = 1");
    refused(&harness.direct_url(""), "read only").await;
}

/// Behind a name that leads to another server after a failover, or on a primary that has become a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_become_read_only_is_refused_by_the_next_connection() {
    let harness = SessionHarness::mariadb();
    let client = harness.direct_client("").await;
    hold(&client, LONG).await.release().await.expect("held");
    harness.sql("SET GLOBAL read_only = 1");
    harness.end_connections();
    pause(200).await;
    let error = client.lock(LOCK).ttl(LONG).try_acquire().await.expect_err("its locks are not the primary's");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("read only"), "{error}");
    harness.sql("SET GLOBAL read_only = 0");
    hold(&client, LONG).await.release().await.expect("held");
}

#[tokio::test]
async fn options_of_one_scheme_are_refused_for_the_other() {
    for (url, says) in [
        ("postgres://h?session-ttl=3s", "scheme=session"),
        ("postgres://h?fenced=always", "scheme=session"),
        ("postgres://h?scheme=session&session-ttl=1ms", "200ms to 60m"),
        ("mysql://h?scheme=session&fenced=canary", "asked, always"),
        ("mysql://h?session-ttl=3s", "session-ttl"),
    ] {
        let error = latchwork::connect(url).await.expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        assert!(error.to_string().contains(says), "{url}: {error}");
    }
}

/// The only member so far: the cluster counts, not the current number of members.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_a_galera_cluster_is_refused() {
    let server = MariadbServer::start(MariadbOptions { is_clustered: true, ..MariadbOptions::default() });
    assert_eq!(server.sql("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_status'"), "wsrep_cluster_status\tPrimary");
    refused(&server.url(server.address(), "scheme=session"), "Galera").await;
}
