//! A byte stream that sets a [`CloseSignal`] before it closes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::close_signal::CloseSignal;

/// Sets the signal before the stream closes, also when its runtime ends. A request made after that was never
/// sent, and its error must say so: nothing was done on the server.
pub(super) struct CloseObserver<S> {
    pub(super) stream: S,
    pub(super) closed: Arc<CloseSignal>,
}

impl<S> Drop for CloseObserver<S> {
    fn drop(&mut self) {
        self.closed.set();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CloseObserver<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.closed.note_read_error(error);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CloseObserver<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed.set();
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
