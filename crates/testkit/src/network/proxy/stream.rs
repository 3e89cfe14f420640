//! TCP and Unix sockets.

use std::io::Result;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// The address of a socket.
#[derive(Clone, Debug)]
pub(super) enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Endpoint {
    pub(super) async fn connect(&self) -> Result<Stream> {
        match self {
            Self::Tcp(address) => Stream::tcp(TcpStream::connect(address).await?),
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        }
    }
}

/// A listening socket.
pub(super) enum ProxyListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ProxyListener {
    /// Listens, and returns the actual address: the port may have been left open.
    pub(super) fn bind(place: &Endpoint) -> (Self, Endpoint) {
        match place {
            Endpoint::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address).expect("a free port");
                let address = listener.local_addr().expect("the socket is bound");
                listener.set_nonblocking(true).expect("a socket");
                (Self::Tcp(TcpListener::from_std(listener).expect("a runtime")), Endpoint::Tcp(address))
            }
            Endpoint::Unix(path) => {
                (Self::Unix(UnixListener::bind(path).expect("the folder is ours")), place.clone())
            }
        }
    }

    /// The next connection.
    pub(super) async fn accept(&self) -> Stream {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => listener.accept().await.and_then(|(stream, _)| Stream::tcp(stream)),
                Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
            };
            match accepted {
                Ok(stream) => return stream,
                // The client has disconnected already, or this process has too many open files, which may be
                // temporary.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

/// A connected socket that is read and written through a shared reference.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Without Nagle's algorithm, so that small chunks are sent at once.
    fn tcp(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    pub(super) async fn readable(&self) -> Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    pub(super) async fn writable(&self) -> Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buffer),
            Self::Unix(stream) => stream.try_read(buffer),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// The peer's address and the local one, for a TCP socket that is still connected.
    pub(super) fn ends(&self) -> Option<[SocketAddr; 2]> {
        match self {
            Self::Tcp(stream) => Some([stream.peer_addr().ok()?, stream.local_addr().ok()?]),
            Self::Unix(_) => None,
        }
    }

    /// Shuts the sending side down. The peer may be gone already.
    pub(super) fn finish(&self) {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
        };
        let _ = socket.shutdown(Shutdown::Write);
    }
}
