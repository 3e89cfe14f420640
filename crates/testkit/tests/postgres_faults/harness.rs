//! The harness: a server, a proxy, a store that checks tokens, and a record of all clients.

use std::ops::Deref;
use std::sync::Arc;

use testkit::harness::FaultHarness;
pub(crate) use testkit::harness::{LOCK, LONG, SOON, now, pause, take};
use testkit::history::RecordedClient;
use testkit::network::proxy::Proxy;
use testkit::servers::{PostgresOptions, PostgresServer};

/// One server with a fault harness around it.
pub(crate) struct PostgresHarness {
    pub(crate) proxy: Proxy,
    pub(crate) server: Arc<PostgresServer>,
    harness: FaultHarness,
}

impl Deref for PostgresHarness {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl PostgresHarness {
    pub(crate) fn new() -> Self {
        Self::with(PostgresOptions::default())
    }

    pub(crate) fn with(options: PostgresOptions<'_>) -> Self {
        let server = Arc::new(PostgresServer::start(options));
        let proxy = Proxy::to(server.address());
        Self { proxy, server, harness: FaultHarness::new() }
    }

    /// The URL through the proxy.
    pub(crate) fn url(&self) -> String {
        self.server.url(self.proxy.address(), "")
    }

    /// The URL that bypasses the proxy.
    pub(crate) fn direct_url(&self) -> String {
        self.server.url(self.server.address(), "")
    }

    /// A client behind the proxy.
    pub(crate) async fn client(&self) -> RecordedClient {
        self.connect(&self.url()).await
    }

    /// The number of our clients' connections.
    pub(crate) fn connections(&self) -> usize {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latchwork'";
        self.server.psql(count).parse().expect("a number")
    }

    /// Waits until a session executes a statement that contains this text.
    pub(crate) async fn until_busy_with(&self, part: &str) {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%{part}%'"
        );
        let end = now().after(SOON);
        while self.server.psql(&count) == "0" {
            assert!(now() < end, "no session executes {part}");
            pause(5).await;
        }
    }

    /// Ends every connection but psql's own.
    pub(crate) fn terminate_all(&self) {
        self.server.psql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'latchwork'",
        );
    }
}
