//! The address of a server, and how to connect to it.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::net::UnixStream;

use crate::net::connection_error::ConnectionError;
use crate::net::dial::dial;
use crate::net::pipeline::{Codec, Pipeline};
use crate::net::tls::{handshake, server_name};

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
    pub(super) async fn connect<C: Codec>(&self, codec: C) -> Result<Pipeline<C>, ConnectionError> {
        Ok(match self {
            Self::Tcp { host, port } => Pipeline::over(codec, dial(host, *port).await?.into_split()),
            Self::Tls { host, port, config } => {
                let stream = handshake(config, server_name(host)?, dial(host, *port).await?).await?;
                Pipeline::over(codec, tokio::io::split(stream))
            }
            Self::Unix(path) => Pipeline::over(codec, UnixStream::connect(path).await?.into_split()),
        })
    }
}
