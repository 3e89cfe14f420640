//! The address of a server, and how to connect to it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;

use crate::net::dial::dial;
use crate::net::pipeline::{Codec, Pipeline};

/// The address of a server.
pub(super) enum Endpoint {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16, config: Arc<ClientConfig> },
    Unix(PathBuf),
}

impl Endpoint {
    pub(super) fn speaks_tls(&self) -> bool {
        matches!(self, Self::Tls { .. })
    }

    /// Connects. Nothing is sent yet.
    ///
    /// # Errors
    /// The operating system's error, or why the certificate is not trusted.
    pub(super) async fn connect<C: Codec>(&self, codec: C) -> io::Result<Pipeline<C>> {
        Ok(match self {
            Self::Tcp { host, port } => Pipeline::over(codec, dial(host, *port).await?.into_split()),
            Self::Tls { host, port, config } => {
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let stream =
                    TlsConnector::from(config.clone()).connect(name, dial(host, *port).await?).await?;
                Pipeline::over(codec, tokio::io::split(stream))
            }
            Self::Unix(path) => Pipeline::over(codec, UnixStream::connect(path).await?.into_split()),
        })
    }
}
