//! A connection to one server, up to the response that opens the session.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::jute::{InputArchive, OutputArchive, next_message};
use super::session_config::SessionConfig;
use crate::clock::{Clock, Moment};
use crate::net::byte_stream::ByteStream;
use crate::net::connection_error::ConnectionError;
use crate::net::dial::dial;
use crate::net::tls::{handshake, server_name};

/// The xid of the user's credentials.
pub(super) const AUTH_XID: i32 = -4;
/// The opcode `auth`.
const AUTH: i32 = 100;

/// The data that a server needs to resume a session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionCredentials {
    /// 0: a new session.
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
    /// The newest transaction this session has seen. A server that is behind it rejects the session.
    pub(super) last_zxid: i64,
}

/// A connection with an open session.
pub(super) struct Connection {
    /// The index of the server.
    pub(super) server: usize,
    pub(super) stream: Box<dyn ByteStream>,
    pub(super) credentials: SessionCredentials,
    /// The timeout that the server agreed to.
    pub(super) timeout: Duration,
    /// When the session was requested. The session cannot end earlier than its timeout after that.
    pub(super) sent: Moment,
    /// Bytes that arrived behind the response.
    pub(super) received: Vec<u8>,
}

/// Why there is no connection.
pub(super) enum ConnectError {
    /// The server cannot be reached now.
    Unreachable(ConnectionError),
    /// The session has ended.
    Expired,
}

impl Connection {
    /// Connects to a server, and opens or resumes a session.
    pub(super) async fn open(
        config: &SessionConfig,
        server: usize,
        credentials: &SessionCredentials,
    ) -> Result<Self, ConnectError> {
        let endpoint = &config.servers[server];
        let unreachable = |error: std::io::Error| ConnectError::Unreachable(error.into());
        let stream = dial(&endpoint.host, endpoint.port).await.map_err(unreachable)?;
        let mut stream: Box<dyn ByteStream> = match &config.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = server_name(&endpoint.host).map_err(ConnectError::Unreachable)?;
                Box::new(handshake(tls, name, stream).await.map_err(ConnectError::Unreachable)?)
            }
        };
        let sent = Clock::boottime().now();
        stream.write_all(&connect_request(config, credentials)).await.map_err(unreachable)?;
        stream.flush().await.map_err(unreachable)?;
        let mut received = Vec::with_capacity(1024);
        let response = loop {
            if let Some(response) =
                next_message(&mut received).map_err(|why| ConnectError::Unreachable(why.into()))?
            {
                break response;
            }
            if stream.read_buf(&mut received).await.map_err(unreachable)? == 0 {
                return Err(ConnectError::Unreachable("it closed the connection".into()));
            }
        };
        let (credentials, timeout) = parse_connect_response(&response, credentials)
            .ok_or_else(|| ConnectError::Unreachable("the reply is not a ZooKeeper server's".into()))?;
        if credentials.id == 0 {
            return Err(ConnectError::Expired);
        }
        Ok(Self { server, stream, credentials, timeout, sent, received })
    }
}

/// `ConnectRequest`, and the user's credentials behind it, in one write.
fn connect_request(config: &SessionConfig, credentials: &SessionCredentials) -> Vec<u8> {
    let (mut bytes, protocol_version, read_only) = (Vec::new(), 0, false);
    let mut out = OutputArchive::begin(&mut bytes);
    out.int(protocol_version).long(credentials.last_zxid);
    out.int(config.timeout.as_millis() as i32).long(credentials.id);
    match credentials.password.is_empty() {
        true => out.buffer(&[0; 16]),
        false => out.buffer(&credentials.password),
    };
    out.bool(read_only);
    out.end();
    if let Some(digest) = &config.digest {
        let mut out = OutputArchive::begin(&mut bytes);
        out.int(AUTH_XID).int(AUTH).int(0).text("digest").text(digest);
        out.end();
    }
    bytes
}

/// `ConnectResponse`.
fn parse_connect_response(
    response: &[u8],
    requested: &SessionCredentials,
) -> Option<(SessionCredentials, Duration)> {
    let mut response = InputArchive(response);
    let (_protocol_version, timeout, id) = (response.int()?, response.int()?, response.long()?);
    let password = response.buffer()?.to_vec();
    // A session with a timeout of zero is rejected. Otherwise it would be opened again and again.
    let timeout = u64::try_from(timeout).ok().filter(|timeout| *timeout > 0 || id == 0)?;
    let timeout = Duration::from_millis(timeout);
    Some((SessionCredentials { id, password, last_zxid: requested.last_zxid }, timeout))
}
