//! How to open a session: the servers, and what the client sends them first.

use std::sync::Arc;
use std::time::Duration;

use super::connection::{ConnectError, Connection, SessionCredentials};
use crate::clock::Clock;
use crate::engines::zookeeper::endpoint::Endpoint;
use crate::net::connection_error::ConnectionError;
use crate::net::deadline;

/// How to open a session.
pub(in super::super) struct SessionConfig {
    pub(in super::super) servers: Vec<Endpoint>,
    pub(in super::super) tls: Option<Arc<rustls::ClientConfig>>,
    /// `user:password`.
    pub(in super::super) digest: Option<String>,
    /// The session timeout to request. The server may change it.
    pub(in super::super) timeout: Duration,
}

impl SessionConfig {
    /// Tries every server once, beginning with a random one. The server that was used last comes last,
    /// because its connection was lost.
    pub(super) async fn connect(
        &self,
        credentials: &SessionCredentials,
        last: Option<usize>,
    ) -> Result<Connection, ConnectError> {
        let [first] = Clock::boottime().random_bytes::<1>();
        let mut order: Vec<_> = (0..self.servers.len()).collect();
        order.rotate_left(usize::from(first) % self.servers.len());
        order.sort_by_key(|server| Some(*server) == last);
        let timeout = self.connect_timeout(credentials);
        let mut reasons = Vec::new();
        for server in order {
            let attempt = tokio::time::timeout(timeout, Connection::open(self, server, credentials));
            let shown_as = || self.servers[server].shown_as();
            match attempt.await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(ConnectError::Expired)) => return Err(ConnectError::Expired),
                Ok(Err(ConnectError::Unreachable(why))) => reasons.push((shown_as(), why)),
                Err(_) => reasons.push((shown_as(), "it does not answer".into())),
            }
        }
        Err(ConnectError::Unreachable(ConnectionError::of_all(reasons)))
    }

    /// The time limit for one server. A live session must not end while the first of several servers is
    /// waited for, or a server that forgot the connection: a server that gets a request while it starts
    /// neither replies nor closes the connection (seen with 3.8.0).
    fn connect_timeout(&self, credentials: &SessionCredentials) -> Duration {
        let share = || self.timeout / 2 / self.servers.len() as u32;
        match credentials.id {
            0 => deadline::CONNECT,
            _ => share().clamp(deadline::ZOOKEEPER_LEAST, deadline::CONNECT),
        }
    }
}
