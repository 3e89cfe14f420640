//! What moves a connection: sends what is left to it, and hands out the answers in the order of the questions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::desk::{Desk, Dialect};

/// How much is read at once.
const CHUNK: usize = 4096;

/// Plain or encrypted.
pub(in crate::engines) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Runs until the connection ends or nobody has a handle on it. Questions follow each other without waiting for answers;
/// who asked and went away does not disturb the others, since what was begun is always sent and read in full.
pub(in crate::engines) struct Driver<D: Dialect> {
    desk: Arc<Desk<D>>,
    stream: Box<dyn Stream>,
    chunk: Box<[u8; CHUNK]>,
    /// A part of an answer.
    arrived: Vec<u8>,
}

impl<D: Dialect> Driver<D> {
    pub(in crate::engines) fn new(stream: Box<dyn Stream>, desk: Arc<Desk<D>>) -> Self {
        Self { desk, stream, chunk: Box::new([0; CHUNK]), arrived: Vec::new() }
    }

    /// Whether it goes on.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            let Self { desk, stream, chunk, arrived } = self;
            let mut buffer = ReadBuf::new(&mut chunk[..]);
            match Pin::new(stream).poll_read(context, &mut buffer) {
                Poll::Pending => return true,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                // It failed, or the other end has closed it.
                Poll::Ready(_) => return false,
            }
            // Most answers come alone and in one piece, and need not be kept.
            let dealt = match arrived.is_empty() {
                true => desk.deal_out(buffer.filled()).map(|dealt| {
                    arrived.extend_from_slice(&buffer.filled()[dealt..]);
                }),
                false => {
                    arrived.extend_from_slice(buffer.filled());
                    desk.deal_out(arrived).map(|dealt| drop(arrived.drain(..dealt)))
                }
            };
            if let Err(wire_error) = dealt {
                desk.because(wire_error);
                return false;
            }
        }
    }
}

impl<D: Dialect> Future for Driver<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if !this.read(context) {
            return Poll::Ready(());
        }
        // Behind the answers: after the last of them there may be nothing left to do.
        match this.desk.poll_write(Pin::new(&mut *this.stream), context) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        }
    }
}

/// However it ends, also with its runtime: those who wait are told.
impl<D: Dialect> Drop for Driver<D> {
    fn drop(&mut self) {
        self.desk.end();
    }
}
