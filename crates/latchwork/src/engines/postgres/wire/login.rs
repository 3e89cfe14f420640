//! Connecting and authentication. The driver does both, on a stream that is lent to it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, NoTls};
use tokio_rustls::TlsConnector;

use super::WireError;
use crate::engines::postgres::bounded::Bounded;
use crate::engines::postgres::options::Options;
use crate::engines::sql::session::Socket;
use crate::net::byte_stream::ByteStream;
use crate::net::connection_error::ConnectionError;
use crate::net::dial::dial;
use crate::net::tls::server_name;
use crate::net::tls_failure::TlsFailure;
use crate::poison::lock_ignoring_poison;

/// The message `SSLRequest`: its length, and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection that the driver owns.
type Connected = (Client, tokio_postgres::Connection<Bounded<Box<dyn ByteStream>>, NoTlsStream>);

/// Connects, for callers that leave the connection to the driver.
pub(in crate::engines::postgres) async fn connect(options: &Options) -> Result<Connected, WireError> {
    let (host, port) = &options.address;
    let socket = dial(host, *port).await?;
    let stream: Box<dyn ByteStream> = match &options.tls {
        None => Box::new(socket),
        Some(tls) => encrypt(socket, tls, host).await?,
    };
    let connecting = options.config.connect_raw(Bounded::new(stream), NoTls);
    connecting.await.map_err(|error| WireError::from(&error))
}

/// Connects and authenticates. Returns the stream with no message under way.
pub(super) async fn log_in(options: &Options) -> Result<Box<dyn ByteStream>, WireError> {
    let (host, port) = &options.address;
    let socket = Socket::connect(host, *port).await?;
    let stream: Box<dyn ByteStream> = match &options.tls {
        None => Box::new(socket),
        Some(tls) => encrypt(socket, tls, host).await?,
    };
    let lent = LentStream(Arc::new(Mutex::new(Some(stream))));
    // Both results are dropped. The handshake is read to its end, and the driver sends no Terminate without
    // being polled.
    let connecting = options.config.connect_raw(Bounded::new(lent.clone()), NoTls);
    drop(connecting.await.map_err(|error| WireError::from(&error))?);
    let stream = lock_ignoring_poison(&lent.0).take();
    stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected).into())
}

async fn encrypt(
    mut socket: impl ByteStream + 'static,
    tls: &Arc<ClientConfig>,
    host: &str,
) -> Result<Box<dyn ByteStream>, WireError> {
    socket.write_all(&SSL_REQUEST).await?;
    // Exactly one byte: bytes read beyond it would be taken for a part of the TLS handshake.
    if socket.read_u8().await? != b'S' {
        let why = "the server does not support TLS; use postgres:// instead of postgres+tls:// to send everything \
                   unencrypted";
        return Err(ConnectionError::new(why.to_owned(), Some(TlsFailure::Other)).into());
    }
    Ok(Box::new(TlsConnector::from(tls.clone()).connect(server_name(host)?, socket).await?))
}

/// A stream that the driver uses for the handshake, and that is taken back after it.
#[derive(Clone)]
struct LentStream(Arc<Mutex<Option<Box<dyn ByteStream>>>>);

impl LentStream {
    fn with<T>(
        &self,
        use_it: impl FnOnce(Pin<&mut dyn ByteStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *lock_ignoring_poison(&self.0) {
            Some(stream) => use_it(Pin::new(&mut **stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for LentStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for LentStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }
}
