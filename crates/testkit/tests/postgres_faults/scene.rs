//! A server, a network that can be bad, a store that checks tokens, and a record of everything.

use std::ops::Deref;

use testkit::history::RecordedClient;
use testkit::proxy::Proxy;
use testkit::servers::{PostgresOptions, PostgresServer};
use testkit::stage::Stage;
pub(crate) use testkit::stage::{LOCK, LONG, SOON, connect, now, pause, renewed, take};

/// One server with everything around it.
pub(crate) struct Scene {
    pub(crate) proxy: Proxy,
    pub(crate) server: PostgresServer,
    stage: Stage,
}

impl Deref for Scene {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(PostgresOptions::default())
    }

    pub(crate) fn with(options: PostgresOptions<'_>) -> Self {
        let server = PostgresServer::start(options);
        let proxy = Proxy::to(server.address());
        Self { proxy, server, stage: Stage::new() }
    }

    /// The way through the proxy.
    pub(crate) fn url(&self) -> String {
        self.server.url(self.proxy.address(), "")
    }

    /// The way past the proxy.
    pub(crate) fn direct_url(&self) -> String {
        self.server.url(self.server.address(), "")
    }

    /// A client behind the proxy.
    pub(crate) async fn client(&self) -> RecordedClient {
        self.connect(&self.url()).await
    }

    /// A client that the proxy cannot harm.
    pub(crate) async fn direct_client(&self) -> RecordedClient {
        self.connect(&self.direct_url()).await
    }

    pub(crate) async fn clients(&self, count: usize) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.client().await);
        }
        clients
    }

    /// How many connections our clients have.
    pub(crate) fn connections(&self) -> usize {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'latchwork'";
        self.server.psql(count).parse().expect("a number")
    }

    /// Ends every connection but psql's own.
    pub(crate) fn terminate_all(&self) {
        self.server.psql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'latchwork'",
        );
    }
}
