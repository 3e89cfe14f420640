//! One server, as one client knows it.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::connection::Connection;
use super::greeting::{Greeting, WireError, question};
use super::options::Place;
use super::wire::ProtocolError;
use crate::engines::quarantine::{QuarantinePolicy, RestartTracker};
use crate::net::dial::dial;
use crate::net::per_runtime::PerRuntime;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Result};

/// How long to try to reach the server. The core bounds every request as well.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// What a server says of itself is a few kilobytes.
const LONGEST_GREETING: usize = 64 * 1024;

/// A server.
pub(super) struct Server {
    pub(super) place: Place,
    rule: (QuarantinePolicy, Duration),
    connections: PerRuntime<Connection>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    lives: RestartTracker,
    warnings: Vec<String>,
}

impl Server {
    pub(super) fn new(place: Place, rule: (QuarantinePolicy, Duration)) -> Self {
        Self { place, rule, connections: PerRuntime::default(), known: Mutex::default() }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If the server cannot be reached or used. Nothing was asked for then.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connections.get(|| self.open()).await
    }

    /// How long it must not be asked for locks yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        lock_ignoring_poison(&self.known).lives.quarantine()
    }

    /// What a user should know of it.
    pub(super) fn warnings(&self) -> Vec<String> {
        lock_ignoring_poison(&self.known).warnings.clone()
    }

    /// It was asked, and did not answer.
    pub(super) fn late(&self, patience: Duration) -> Error {
        self.unreachable(format!("no answer within {patience:?}")).with_effect(Effect::Unknown)
    }

    async fn open(&self) -> Result<Connection> {
        let late = || self.unreachable(format!("no answer within {CONNECT_LIMIT:?}; is it hung?"));
        tokio::time::timeout(CONNECT_LIMIT, self.meet()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn meet(&self) -> Result<Connection> {
        let Place { host, port, .. } = &self.place;
        let mut stream = dial(host, *port).await.map_err(|error| self.unreachable(error))?;
        match &self.place.tls {
            None => {
                let greeting = self.greet(&mut stream).await?;
                Ok(Connection::over(stream.into_split(), &greeting, &self.place.text))
            }
            Some((config, name)) => {
                let secured = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
                let mut secured = secured.map_err(|error| self.not_secured(&error))?;
                let greeting = self.greet(&mut secured).await?;
                Ok(Connection::over(tokio::io::split(secured), &greeting, &self.place.text))
            }
        }
    }

    async fn greet(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<Greeting> {
        let greeting = ask(stream).await.map_err(|wire_error| self.not_met(wire_error))?;
        greeting.check(&self.place.text)?;
        let mut known = lock_ignoring_poison(&self.known);
        known.lives.record_run(&greeting.life.to_string(), greeting.uptime, true, self.rule);
        known.warnings = greeting.warnings(&self.place.text);
        drop(known);
        Ok(greeting)
    }

    fn not_met(&self, wire_error: NotMet) -> Error {
        let speaks = match self.place.tls {
            Some(_) => "does this port speak memcached's protocol?",
            None => "does this port speak memcached's protocol, in plain text?",
        };
        match wire_error {
            NotMet::Io(error) => self.unreachable(format!("{error}; {speaks}")),
            NotMet::WireError(WireError::ProtocolError(ProtocolError(why))) => {
                self.unreachable(format!("it sent a reply that is not memcached's: {why}; {speaks}"))
            }
            NotMet::WireError(WireError::Unauthenticated) => {
                let message = format!(
                    "memcached at {} requires a password (-Y), which is not supported; use a server without one, or one \
                     that requires client certificates",
                    self.place.text
                );
                Error::new(ErrorKind::Denied, message)
            }
        }
    }

    fn not_secured(&self, error: &io::Error) -> Error {
        self.unreachable(format!(
            "{error}; does this port speak TLS, and did the authority of ca= sign its certificate?"
        ))
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Unreachable, format!("memcached at {}: {why}", self.place.text))
    }
}

/// Why a server was not met.
enum NotMet {
    Io(io::Error),
    WireError(WireError),
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<Greeting, NotMet> {
    stream.write_all(&question()).await.map_err(NotMet::Io)?;
    stream.flush().await.map_err(NotMet::Io)?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while bytes.len() < LONGEST_GREETING {
        match stream.read(&mut chunk).await.map_err(NotMet::Io)? {
            0 => {
                return Err(NotMet::Io(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "it closed the connection",
                )));
            }
            length => bytes.extend_from_slice(&chunk[..length]),
        }
        if let Some(greeting) = Greeting::read(&bytes).map_err(NotMet::WireError)? {
            return Ok(greeting);
        }
    }
    Err(NotMet::WireError(WireError::ProtocolError(ProtocolError(format!(
        "more than {LONGEST_GREETING} bytes of it"
    )))))
}
