//! Connecting and authentication. The driver does both, on a stream that is lent to it.

use std::io;
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, NoTls};
use tokio_rustls::TlsConnector;

use super::{NO_TLS, WireError};
use crate::engines::postgres::bounded::Bounded;
use crate::engines::postgres::options::Options;
use crate::engines::sql::Stream;
use crate::engines::sql::session::Socket;
use crate::net::dial::dial;
use crate::poison::lock_ignoring_poison;

/// The message `SSLRequest`: its length, and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection that the driver owns.
type Connected = (Client, tokio_postgres::Connection<Bounded<Box<dyn Stream>>, NoTlsStream>);

/// Connects, for callers that leave the connection to the driver.
pub(in crate::engines::postgres) async fn connect(options: &Options) -> Result<Connected, WireError> {
    let (host, port) = &options.address;
    let socket = dial(host, *port).await?;
    let stream: Box<dyn Stream> = match &options.tls {
        None => Box::new(socket),
        Some(tls) => encrypt(socket, tls, host).await?,
    };
    let connecting = options.config.connect_raw(Bounded::new(stream), NoTls);
    connecting.await.map_err(|error| WireError::from(&error))
}

/// Connects and authenticates. Returns the stream with no message under way, and a duplicate of its socket if it is not
/// encrypted.
pub(super) async fn log_in(options: &Options) -> Result<(Box<dyn Stream>, Option<TcpStream>), WireError> {
    let (host, port) = &options.address;
    let socket = Socket::connect(host, *port).await?;
    let (stream, twin): (Box<dyn Stream>, _) = match &options.tls {
        None => {
            let twin = socket.twin()?;
            (Box::new(socket), Some(twin))
        }
        Some(tls) => (encrypt(socket, tls, host).await?, None),
    };
    let lent = LentStream(Arc::new(Mutex::new(Some(stream))));
    // Both results are dropped. The handshake is read to its end, and the driver sends no Terminate without
    // being polled.
    let connecting = options.config.connect_raw(Bounded::new(lent.clone()), NoTls);
    drop(connecting.await.map_err(|error| WireError::from(&error))?);
    let stream = lock_ignoring_poison(&lent.0).take();
    stream.map(|stream| (stream, twin)).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected).into())
}

async fn encrypt(
    mut socket: impl Stream + 'static,
    tls: &Arc<ClientConfig>,
    host: &str,
) -> Result<Box<dyn Stream>, WireError> {
    socket.write_all(&SSL_REQUEST).await?;
    // Exactly one byte: bytes read beyond it would be taken for a part of the TLS handshake.
    if socket.read_u8().await? != b'S' {
        return Err(WireError::Ended(NO_TLS.to_owned()));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| WireError::Ended(error.to_string()))?;
    Ok(Box::new(TlsConnector::from(tls.clone()).connect(name, socket).await?))
}

/// A stream that the driver uses for the handshake, and that is taken back after it.
#[derive(Clone)]
struct LentStream(Arc<Mutex<Option<Box<dyn Stream>>>>);

impl LentStream {
    fn with<T>(
        &self,
        use_it: impl FnOnce(Pin<&mut dyn Stream>) -> Poll<io::Result<T>>,
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
