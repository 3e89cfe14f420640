//! This scene as one of any database with rows.

use testkit::proxy::Proxy;
use testkit::rows;

use super::scene::Scene;

impl rows::Scene for Scene {
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
}
