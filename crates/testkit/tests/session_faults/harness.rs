//! The harness: a server of either kind, and a proxy.

use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::engine::{Filter, LockState};
use latchwork::{Client, Guard, LockName};
pub(crate) use testkit::harness::{LOCK, SOON, connect, now, pause};
use testkit::network::proxy::Proxy;
use testkit::servers::{MariadbOptions, MariadbServer, PostgresOptions, PostgresServer};

/// A ttl that does not expire during a test.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Turns a function that takes a [`SessionHarness`] into a test on each kind of server.
macro_rules! on_both {
    ($($(#[$about:meta])* $test:ident;)*) => {
        mod on_postgres {$(
            $(#[$about])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::harness::SessionHarness::postgres()).await;
            }
        )*}
        mod on_mariadb {$(
            $(#[$about])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test($crate::harness::SessionHarness::mariadb()).await;
            }
        )*}
    };
}
pub(crate) use on_both;

pub(crate) enum Server {
    Postgres(PostgresServer),
    Mariadb(MariadbServer),
}

/// One server behind a proxy.
pub(crate) struct SessionHarness {
    pub(crate) proxy: Proxy,
    pub(crate) server: Server,
}

impl SessionHarness {
    pub(crate) fn postgres() -> Self {
        let server = PostgresServer::start(PostgresOptions::default());
        Self { proxy: Proxy::to(server.address()), server: Server::Postgres(server) }
    }

    pub(crate) fn mariadb() -> Self {
        let server = MariadbServer::start(MariadbOptions::default());
        Self { proxy: Proxy::to(server.address()), server: Server::Mariadb(server) }
    }

    /// The URL through the proxy.
    pub(crate) fn url(&self, options: &str) -> String {
        let (address, options) = (self.proxy.address(), format!("scheme=session&{options}"));
        match &self.server {
            Server::Postgres(server) => server.url(address, &options),
            Server::Mariadb(server) => server.url(address, &options),
        }
    }

    /// The URL that bypasses the proxy.
    pub(crate) fn direct_url(&self, options: &str) -> String {
        let options = format!("scheme=session&{options}");
        match &self.server {
            Server::Postgres(server) => server.url(server.address(), &options),
            Server::Mariadb(server) => server.url(server.address(), &options),
        }
    }

    pub(crate) async fn client(&self, options: &str) -> Client {
        connect(&self.url(options)).await
    }

    pub(crate) async fn direct_client(&self, options: &str) -> Client {
        connect(&self.direct_url(options)).await
    }

    /// Executes SQL with all rights.
    pub(crate) fn sql(&self, sql: &str) -> String {
        match &self.server {
            Server::Postgres(server) => server.psql(sql),
            Server::Mariadb(server) => server.sql(sql),
        }
    }

    /// Kills the server (`kill -9`) and restarts it with its data on disk.
    pub(crate) fn restart(&self) {
        match &self.server {
            Server::Postgres(server) => server.restart(),
            Server::Mariadb(server) => server.restart(),
        }
    }

    /// Ends every connection, as an operator would.
    pub(crate) fn end_connections(&self) {
        match &self.server {
            Server::Postgres(server) => drop(server.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'latchwork%'",
            )),
            Server::Mariadb(server) => server.end_connections(),
        }
    }

    /// The number of our connections on the server.
    pub(crate) fn connections(&self) -> usize {
        let count = match &self.server {
            Server::Postgres(_) => {
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'latchwork%'"
            }
            Server::Mariadb(_) => "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'owner'",
        };
        self.sql(count).parse().expect("a number")
    }
}

pub(crate) async fn state(client: &Client) -> Option<LockState> {
    let name = LockName::new(LOCK).expect("a good name");
    client.inspect(&Filter::Name(name)).await.expect("the server answers").pop()
}

pub(crate) async fn hold(client: &Client, ttl: Duration) -> Guard {
    client.lock(LOCK).ttl(ttl).wait(LONG).acquire().await.expect("the lock becomes free")
}

/// A task that waits for the lock, and returns when it got it.
pub(crate) fn waiting(client: &Client, ttl: Duration) -> tokio::task::JoinHandle<(Guard, Moment)> {
    let client = client.clone();
    tokio::spawn(async move {
        let guard = hold(&client, ttl).await;
        (guard, now())
    })
}
