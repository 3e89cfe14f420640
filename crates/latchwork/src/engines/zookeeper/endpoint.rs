//! The address of one server.

use crate::engine::url_options::host_and_port;

const DEFAULT_PORT: u16 = 2181;

/// The address of one server of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Endpoint {
    /// Parses `host` or `host:port`. `None` if the port is not valid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = host_and_port(text, DEFAULT_PORT)?;
        Some(Self { host, port })
    }

    /// A server on this machine, at the default port.
    pub(super) fn local() -> Self {
        Self { host: "127.0.0.1".to_owned(), port: DEFAULT_PORT }
    }

    /// The address for messages: without credentials.
    pub(super) fn shown_as(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}
