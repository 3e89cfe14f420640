//! Sockets of both kinds.

use std::io::Result;
use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Where a socket is.
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

/// Where connections come in.
pub(super) enum ProxyListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ProxyListener {
    /// Listens, and says where: the port may have been left open.
    pub(super) fn bind(place: &Endpoint) -> (Self, Endpoint) {
        match place {
            Endpoint::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address).expect("a free port");
                let address = listener.local_addr().expect("it is bound");
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
                // The client is gone already, or this process has too many files open, which may pass.
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

/// A connected socket, to be read and written through a shared reference.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Small chunks go out at once.
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

    /// The addresses of the other end and of this one, if it is TCP and still connected.
    pub(super) fn ends(&self) -> Option<[SocketAddr; 2]> {
        match self {
            Self::Tcp(stream) => Some([stream.peer_addr().ok()?, stream.local_addr().ok()?]),
            Self::Unix(_) => None,
        }
    }

    /// Tells the other end that nothing more comes. It may be gone already.
    pub(super) fn finish(&self) {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
        };
        let _ = socket.shutdown(Shutdown::Write);
    }
}
