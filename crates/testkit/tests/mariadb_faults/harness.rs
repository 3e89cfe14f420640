//! The harness: a server, a proxy, a store that checks tokens, and a record of all clients.

use std::ops::Deref;

use testkit::harness::FaultHarness;
use testkit::network::proxy::Proxy;
use testkit::scenarios::sql;
use testkit::servers::{MariadbOptions, MariadbServer, SqlSession};

/// One server with a fault harness around it.
pub(crate) struct MariadbHarness {
    pub(crate) proxy: Proxy,
    pub(crate) server: MariadbServer,
    harness: FaultHarness,
}

impl Deref for MariadbHarness {
    type Target = FaultHarness;

    fn deref(&self) -> &FaultHarness {
        &self.harness
    }
}

impl MariadbHarness {
    pub(crate) fn new() -> Self {
        Self::with(MariadbOptions::default())
    }

    pub(crate) fn with(options: MariadbOptions<'_>) -> Self {
        let server = MariadbServer::start(options);
        let proxy = Proxy::to(server.address());
        Self { proxy, server, harness: FaultHarness::new() }
    }
}

impl sql::SqlHarness for MariadbHarness {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn url(&self) -> String {
        self.server.url(self.proxy.address(), "")
    }

    fn direct_url(&self) -> String {
        self.server.url(self.server.address(), "")
    }

    fn restart(&self) {
        self.server.restart();
    }

    fn end_connections(&self) {
        self.server.end_connections();
    }

    fn sql(&self, text: &str) -> String {
        self.server.sql(text)
    }
    fn session(&self) -> SqlSession {
        self.server.session()
    }

    fn time(&self) -> &'static str {
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    }

    /// No other statement of these users takes so long.
    fn waiting(&self) -> Vec<u64> {
        self.server.statement_times()
    }
}
