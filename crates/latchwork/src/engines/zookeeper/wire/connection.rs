//! One connection to one server, up to the answer that opens the session.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::jute::{In, Out, next_message};
use crate::clock::{Clock, Moment};
use crate::net::byte_stream::ByteStream;
use crate::net::connection_error::ConnectionError;
use crate::net::deadline;
use crate::net::dial::dial;
use crate::net::tls::{handshake, server_name};

/// The request number of a user's credentials.
pub(super) const AUTH_XID: i32 = -4;
const AUTH: i32 = 100;

/// Where the servers are, and how to introduce oneself.
pub(in super::super) struct Place {
    pub(in super::super) hosts: Vec<(String, u16)>,
    pub(in super::super) tls: Option<Arc<rustls::ClientConfig>>,
    /// `user:password`.
    pub(in super::super) digest: Option<String>,
    /// How long a session lives without a sign of life, if the server agrees.
    pub(in super::super) timeout: Duration,
}

/// A session, as a server must know it to let a client go on with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket {
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
    /// The newest transaction this session has seen: a server that is behind does not take it.
    pub(super) zxid: i64,
}

/// A connection whose session is open.
pub(super) struct Connection {
    /// Which of the servers it goes to.
    pub(super) server: usize,
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) ticket: Ticket,
    /// What the server agreed to.
    pub(super) timeout: Duration,
    /// When the session was asked for: it cannot end earlier than its timeout after that.
    pub(super) sent: Moment,
    /// What came behind the answer.
    pub(super) received: Vec<u8>,
}

/// Why there is no connection.
pub(super) enum NoConnection {
    /// This server cannot be reached now.
    Unreachable(ConnectionError),
    /// The session is over.
    Expired,
}

impl Place {
    /// Tries every server once, beginning with any. The one that was used last comes last: there was a reason to leave it.
    pub(super) async fn connect(
        &self,
        ticket: &Ticket,
        last: Option<usize>,
    ) -> Result<Connection, NoConnection> {
        let [first] = Clock::boottime().random_bytes::<1>();
        let mut order: Vec<_> = (0..self.hosts.len()).collect();
        order.rotate_left(usize::from(first) % self.hosts.len());
        order.sort_by_key(|server| Some(*server) == last);
        let limit = self.patience(ticket);
        let mut reasons = Vec::new();
        for server in order {
            let tried = tokio::time::timeout(limit, self.open(server, ticket));
            match tried.await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(NoConnection::Expired)) => return Err(NoConnection::Expired),
                Ok(Err(NoConnection::Unreachable(error))) => reasons.push((self.name(server), error)),
                Err(_) => reasons.push((self.name(server), "it does not answer".into())),
            }
        }
        Err(NoConnection::Unreachable(ConnectionError::of_all(reasons)))
    }

    /// How long one server may take. A session that lives must not end while the first of several is waited for, nor with one
    /// that forgot its client: a server that is asked while it starts neither answers nor closes the connection (seen with 3.8.0).
    fn patience(&self, ticket: &Ticket) -> Duration {
        match ticket.id {
            0 => deadline::CONNECT,
            _ => (self.timeout / 2 / self.hosts.len() as u32)
                .clamp(deadline::ZOOKEEPER_LEAST, deadline::CONNECT),
        }
    }

    fn name(&self, server: usize) -> String {
        let (host, port) = &self.hosts[server];
        format!("{host}:{port}")
    }

    async fn open(&self, server: usize, ticket: &Ticket) -> Result<Connection, NoConnection> {
        let (host, port) = &self.hosts[server];
        let unreachable = |error: std::io::Error| NoConnection::Unreachable(error.into());
        let stream = dial(host, *port).await.map_err(unreachable)?;
        let mut stream: Box<dyn ByteStream> = match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = server_name(host).map_err(NoConnection::Unreachable)?;
                Box::new(handshake(config, name, stream).await.map_err(NoConnection::Unreachable)?)
            }
        };
        let sent = Clock::boottime().now();
        stream.write_all(&self.greeting(ticket)).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        let mut received = Vec::with_capacity(1024);
        let answer = loop {
            if let Some(answer) =
                next_message(&mut received).map_err(|why| NoConnection::Unreachable(why.into()))?
            {
                break answer;
            }
            if stream.read_buf(&mut received).await.map_err(unreachable)? == 0 {
                return Err(NoConnection::Unreachable("it closed the connection".into()));
            }
        };
        let (ticket, timeout) = opened(&answer, ticket)
            .ok_or_else(|| NoConnection::Unreachable("what answers is no ZooKeeper server".into()))?;
        if ticket.id == 0 {
            return Err(NoConnection::Expired);
        }
        Ok(Connection { server, stream, ticket, timeout, sent, received })
    }

    /// Asks for the session, and says who asks, in one write.
    fn greeting(&self, ticket: &Ticket) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Out::begin(&mut bytes);
        out.int(0).long(ticket.zxid).int(self.timeout.as_millis() as i32).long(ticket.id);
        match ticket.password.is_empty() {
            true => out.buffer(&[0; 16]),
            false => out.buffer(&ticket.password),
        };
        out.flag(false);
        out.end();
        if let Some(digest) = &self.digest {
            let mut out = Out::begin(&mut bytes);
            out.int(AUTH_XID).int(AUTH).int(0).text("digest").text(digest);
            out.end();
        }
        bytes
    }
}

fn opened(answer: &[u8], asked: &Ticket) -> Option<(Ticket, Duration)> {
    let mut answer = In(answer);
    let (_version, timeout, id) = (answer.int()?, answer.int()?, answer.long()?);
    let password = answer.buffer()?.to_vec();
    // A session with a timeout of zero is rejected. Otherwise it would be opened again and again.
    let timeout = u64::try_from(timeout).ok().filter(|timeout| *timeout > 0 || id == 0)?;
    let timeout = Duration::from_millis(timeout);
    Some((Ticket { id, password, zxid: asked.zxid }, timeout))
}
