//! The address of a server.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::Result;
use crate::engine::EngineUrl;
use crate::engine::url_options::{host_and_port, invalid};

const PORT: u16 = 11211;

/// The address of a server.
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// `host:port`, as it is shown, and as it is hashed.
    pub(super) shown_as: String,
    /// The configuration of TLS, and the name that the certificate must be valid for.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Endpoint {
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a host or port that cannot be one.
    pub(super) fn of(url: &EngineUrl, host: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Self> {
        let (host, port) = host_and_port(host, PORT)
            .ok_or_else(|| invalid(url, "a port is no number from 1 to 65535".to_owned()))?;
        // The text decides which server has a lock. Host names are the same in capitals.
        let host = host.to_ascii_lowercase();
        let shown_as = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let named = |config: &Arc<ClientConfig>| match ServerName::try_from(host.clone()) {
            Ok(name) => Ok((config.clone(), name)),
            Err(_) => Err(invalid(url, format!("{host} cannot be a name in a certificate"))),
        };
        let tls = tls.map(named).transpose()?;
        Ok(Self { host, port, shown_as, tls })
    }
}
