//! A socket that is heard on whichever runtime asks.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};

use crate::net::dial::dial;

/// A socket. A runtime that stands still hears nothing, so whoever polls this takes it over to its own.
pub(in crate::engines) struct Socket {
    /// Missing only if it could not be taken over.
    stream: Option<TcpStream>,
    /// The same socket, for writes that do not wait.
    twin: std::net::TcpStream,
    runtime: runtime::Id,
}

impl Socket {
    /// # Errors
    /// What the system says.
    pub(in crate::engines) async fn connect(host: &str, port: u16) -> io::Result<Self> {
        let stream = dial(host, port).await?.into_std()?;
        let twin = stream.try_clone()?;
        // Heard from here on: who connects may have begun on another runtime.
        Ok(Self { stream: Some(TcpStream::from_std(stream)?), twin, runtime: Handle::current().id() })
    }

    fn is_here(&self) -> bool {
        Handle::try_current().is_ok_and(|runtime| runtime.id() == self.runtime)
    }

    fn here(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let here = Handle::try_current().map_err(io::Error::other)?.id();
        if self.runtime != here {
            let taken = self.stream.take().map(TcpStream::into_std).transpose()?;
            self.stream = taken.map(TcpStream::from_std).transpose()?;
            self.runtime = here;
        }
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.here()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // A task of another runtime writes for itself, and leaves the socket to the runtime that reads. And a runtime
        // that has just taken the socket over does not know yet that it can be written to.
        if let Ok(written) = self.twin.write(bytes) {
            return Poll::Ready(Ok(written));
        }
        if !self.is_here() {
            // The reader is woken, and takes the socket back from here.
            context.waker().wake_by_ref();
        }
        self.here()?.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.here()?.poll_shutdown(context)
    }
}
