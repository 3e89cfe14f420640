//! The address of one member.

use rustls::pki_types::ServerName;

use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{host_and_port, invalid};

const DEFAULT_PORT: u16 = 2379;

/// The address of one member of the cluster.
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// The name that the member's certificate must be issued for.
    pub(super) tls_name: ServerName<'static>,
}

impl Endpoint {
    /// Parses `host` or `host:port`.
    pub(super) fn parse(url: &EngineUrl, text: &str) -> Result<Self> {
        let (host, port) = host_and_port(text, DEFAULT_PORT)
            .ok_or_else(|| invalid(url, "a port must be a number from 1 to 65535".to_owned()))?;
        let tls_name = ServerName::try_from(host.clone())
            .map_err(|_| invalid(url, "a host is neither a name nor an address".to_owned()))?;
        Ok(Self { host, port, tls_name })
    }

    /// The address for messages: without credentials.
    pub(super) fn shown_as(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}
