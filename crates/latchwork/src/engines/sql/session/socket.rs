//! A socket that can be polled on any runtime.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};

use crate::net::dial::dial;

/// A socket that registers itself with the runtime on which it is polled, because its last runtime may be
/// blocked.
pub(in crate::engines) struct Socket {
    /// `None` only after it could not be registered.
    stream: Option<TcpStream>,
    /// A second handle to the socket, for writes that do not wait.
    twin: std::net::TcpStream,
    runtime: runtime::Id,
}

impl Socket {
    /// # Errors
    /// The error of the operating system.
    pub(in crate::engines) async fn connect(host: &str, port: u16) -> io::Result<Self> {
        let stream = dial(host, port).await?.into_std()?;
        let twin = stream.try_clone()?;
        // Registered with this runtime: the connecting task may have started on another one.
        Ok(Self { stream: Some(TcpStream::from_std(stream)?), twin, runtime: Handle::current().id() })
    }

    fn is_registered_here(&self) -> bool {
        Handle::try_current().is_ok_and(|runtime| runtime.id() == self.runtime)
    }

    fn on_this_runtime(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let here = Handle::try_current().map_err(io::Error::other)?.id();
        if self.runtime != here {
            let deregistered = self.stream.take().map(TcpStream::into_std).transpose()?;
            self.stream = deregistered.map(TcpStream::from_std).transpose()?;
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
        self.on_this_runtime()?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // A task of another runtime writes for itself, and leaves the socket registered with the runtime that
        // reads. And a runtime that has just registered the socket does not know yet that it is writable.
        if let Ok(written) = self.twin.write(bytes) {
            return Poll::Ready(Ok(written));
        }
        if !self.is_registered_here() {
            // Wakes the reader, which registers the socket with its runtime again.
            context.waker().wake_by_ref();
        }
        self.on_this_runtime()?.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.on_this_runtime()?.poll_shutdown(context)
    }
}
