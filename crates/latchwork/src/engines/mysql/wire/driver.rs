//! What moves a connection: sends what is left to it, and hands out the answers in the order of the questions.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::Trouble;
use super::desk::Desk;
use super::stream::Stream;

/// How much is read at once.
const CHUNK: usize = 4096;

/// Runs until the connection ends or nobody has a handle on it. Questions follow each other without waiting for answers;
/// who asked and went away does not disturb the others, since what was begun is always sent and read in full.
pub(super) struct Driver {
    desk: Arc<Desk>,
    stream: Box<dyn Stream>,
    chunk: Box<[u8; CHUNK]>,
    arrived: Vec<u8>,
}

impl Driver {
    pub(super) fn new(stream: Box<dyn Stream>, desk: Arc<Desk>) -> Self {
        Self { desk, stream, chunk: Box::new([0; CHUNK]), arrived: Vec::new() }
    }

    fn read(&mut self, context: &mut Context<'_>) -> Result<(), Trouble> {
        loop {
            let mut buffer = ReadBuf::new(&mut self.chunk[..]);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(read) => read?,
            }
            match buffer.filled() {
                [] => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                filled => self.arrived.extend_from_slice(filled),
            }
            self.desk
                .deal_out(&mut self.arrived)
                .inspect_err(|trouble| self.desk.because(trouble.clone()))?;
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.read(context).is_err() {
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
impl Drop for Driver {
    fn drop(&mut self) {
        self.desk.end();
    }
}
