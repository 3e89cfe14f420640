//! One client's session with one server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::errors;
use super::server_stats::{MAX_REPLY, ServerStats, WireError, requests};
use crate::engines::quarantine::{QuarantinePolicy, RestartTracker};
use crate::net::connection_error::ConnectionError;
use crate::net::deadline;
use crate::net::dial::dial;
use crate::net::per_runtime::PerRuntime;
use crate::net::tls::handshake;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, Result};

/// One client's session with one server.
pub(super) struct Session {
    pub(super) endpoint: Endpoint,
    quarantine: (QuarantinePolicy, Duration),
    connections: PerRuntime<Connection>,
    history: Mutex<ServerHistory>,
}

/// The client's knowledge of the server from its connections so far.
#[derive(Default)]
struct ServerHistory {
    lives: RestartTracker,
    warnings: Vec<String>,
}

impl Session {
    pub(super) fn new(endpoint: Endpoint, quarantine: (QuarantinePolicy, Duration)) -> Self {
        Self { endpoint, quarantine, connections: PerRuntime::default(), history: Mutex::default() }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If the server cannot be reached or used. Nothing was sent that could change a lock.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connections.get(|| self.open()).await
    }

    /// How long the server grants no locks yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        lock_ignoring_poison(&self.history).lives.quarantine()
    }

    /// Warnings about the server.
    pub(super) fn warnings(&self) -> Vec<String> {
        lock_ignoring_poison(&self.history).warnings.clone()
    }

    /// The error of a request that was not answered within this time.
    pub(super) fn timed_out(&self, limit: Duration) -> Error {
        errors::unreachable(&self.endpoint, format!("no answer within {limit:?}"))
            .with_effect(Effect::Unknown)
    }

    async fn open(&self) -> Result<Connection> {
        let opened = tokio::time::timeout(deadline::CONNECT, self.connect()).await;
        opened.unwrap_or_else(|_| {
            let why = format!("no answer within {:?}; is it hung?", deadline::CONNECT);
            Err(errors::unreachable(&self.endpoint, why))
        })
    }

    async fn connect(&self) -> Result<Connection> {
        let Endpoint { host, port, tls, shown_as } = &self.endpoint;
        let dialed = dial(host, *port).await;
        let mut stream = dialed.map_err(|error| errors::unreachable(&self.endpoint, error))?;
        match tls {
            None => {
                let stats = self.meet(&mut stream).await?;
                Ok(Connection::over(stream.into_split(), &stats, shown_as))
            }
            Some((config, name)) => {
                let secured = handshake(config, name.clone(), stream).await;
                let mut secured =
                    secured.map_err(|error| error.error(format_args!("memcached at {shown_as}")))?;
                let stats = self.meet(&mut secured).await?;
                Ok(Connection::over(tokio::io::split(secured), &stats, shown_as))
            }
        }
    }

    /// Learns about the server, and refuses one that locks cannot use.
    async fn meet(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<ServerStats> {
        let stats = server_stats(stream).await;
        let stats = stats.map_err(|wire_error| errors::no_server_stats(wire_error, &self.endpoint))?;
        stats.check(&self.endpoint.shown_as)?;
        let mut history = lock_ignoring_poison(&self.history);
        history.lives.record_run(&stats.life.to_string(), stats.uptime, true, self.quarantine);
        history.warnings = stats.warnings(&self.endpoint.shown_as);
        drop(history);
        Ok(stats)
    }
}

async fn server_stats<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<ServerStats, WireError> {
    stream.write_all(&requests()).await?;
    stream.flush().await?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while bytes.len() < MAX_REPLY {
        match stream.read(&mut chunk).await? {
            0 => return Err(WireError::Ended("the server closed the connection".into())),
            length => bytes.extend_from_slice(&chunk[..length]),
        }
        match ServerStats::parse(&bytes) {
            Ok(None) => {}
            Ok(Some(stats)) => return Ok(stats),
            Err(WireError::ProtocolError(why)) => {
                let error = ConnectionError::unreadable(&bytes, String::new());
                return Err(if error.tls().is_some() { error.into() } else { WireError::ProtocolError(why) });
            }
            Err(error) => return Err(error),
        }
    }
    Err(WireError::too_long())
}
