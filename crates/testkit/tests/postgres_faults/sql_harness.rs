//! The PostgreSQL harness as a [`SqlHarness`](testkit::scenarios::sql::SqlHarness).

use testkit::network::proxy::Proxy;
use testkit::scenarios::sql;
use testkit::servers::SqlSession;

use super::harness::PostgresHarness;

impl sql::SqlHarness for PostgresHarness {
    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn url(&self) -> String {
        self.url()
    }

    fn direct_url(&self) -> String {
        self.direct_url()
    }

    fn restart(&self) {
        self.server.restart();
    }

    fn end_connections(&self) {
        self.terminate_all();
    }

    fn sql(&self, text: &str) -> String {
        self.server.psql(text)
    }
    fn session(&self) -> SqlSession {
        self.server.session()
    }

    fn time(&self) -> &'static str {
        "extract(epoch FROM clock_timestamp()) * 1000000"
    }

    fn waiting(&self) -> Vec<u64> {
        let look = "SELECT (extract(epoch FROM clock_timestamp() - query_start) * 1000)::bigint FROM pg_stat_activity \
                    WHERE application_name = 'latchwork' AND state = 'active' AND wait_event_type = 'Lock'";
        self.sql(look).lines().filter_map(|millis| millis.parse().ok()).collect()
    }
}
