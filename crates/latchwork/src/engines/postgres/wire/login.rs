//! Connecting, and proving who we are. That is the driver's work, on a stream that it is lent.

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

use super::WireError;
use crate::engines::postgres::bounded::Bounded;
use crate::engines::postgres::options::Options;
use crate::engines::sql::Stream;
use crate::engines::sql::session::Socket;
use crate::net::dial::dial;
use crate::poison::lock_ignoring_poison;

/// Asks for TLS: the length of this, and a number that stands for it.
const ENCRYPT: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection that the driver owns.
type Connected = (Client, tokio_postgres::Connection<Bounded<Box<dyn Stream>>, NoTlsStream>);

/// Connects, for callers that let the driver handle the connection.
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

/// A stream on which nothing is under way, and its socket once more if it is plain.
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
    let lent = Lent(Arc::new(Mutex::new(Some(stream))));
    // Dropped as they are: they have read to the end of the greeting, and neither says goodbye unless somebody moves it.
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
    socket.write_all(&ENCRYPT).await?;
    // Nothing but this may stand before the handshake: what is read with it would be taken for encrypted.
    if socket.read_u8().await? != b'S' {
        return Err(WireError::Ended("the server does not support TLS".to_owned()));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| WireError::Ended(error.to_string()))?;
    Ok(Box::new(TlsConnector::from(tls.clone()).connect(name, socket).await?))
}

/// A stream that is taken back when the driver has done its part.
#[derive(Clone)]
struct Lent(Arc<Mutex<Option<Box<dyn Stream>>>>);

impl Lent {
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

impl AsyncRead for Lent {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Lent {
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
