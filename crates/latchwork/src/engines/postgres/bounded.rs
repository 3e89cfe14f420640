//! A stream that limits the length of every message and every reply.
//!
//! The driver trusts every length that a server sends, and keeps all rows of a reply. So the server would
//! decide how much memory this process uses. This stream therefore reads the header of every message.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::{MAX_MESSAGE, NOT_POSTGRES, reply_too_long};

/// The driver's overhead per message, in bytes, at most.
const MESSAGE_OVERHEAD: usize = 128;
/// The message types that matter here.
const READY: u8 = b'Z';
const NOTICE: u8 = b'N';
const NOTIFICATION: u8 = b'A';

/// Reads from `S`, and fails when a message or a reply is too long.
pub(super) struct Bounded<S> {
    stream: S,
    progress: MessageProgress,
}

/// The message that is being received.
#[derive(Default)]
struct MessageProgress {
    /// The received part of its header: type and length.
    head: [u8; 5],
    head_length: usize,
    /// The number of bytes of the body that are still to come.
    body_left: usize,
    /// The number of bytes that the driver may keep of the current reply.
    kept: usize,
    /// Whether the server has been ready before. Until then the driver keeps every message.
    was_ready: bool,
}

impl<S> Bounded<S> {
    /// Wraps a stream on which nothing has been received yet.
    pub(super) fn new(stream: S) -> Self {
        Self { stream, progress: MessageProgress::default() }
    }
}

impl MessageProgress {
    /// Accounts for received bytes.
    ///
    /// # Errors
    /// If a message or a reply is too long, or the bytes are not a message.
    fn receive(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let received = self.body_left.min(bytes.len());
                (self.body_left, bytes) = (self.body_left - received, &bytes[received..]);
                continue;
            }
            let more = (self.head.len() - self.head_length).min(bytes.len());
            let (head, rest) = bytes.split_at(more);
            self.head[self.head_length..][..more].copy_from_slice(head);
            (self.head_length, bytes) = (self.head_length + more, rest);
            if self.head_length == self.head.len() {
                self.head_length = 0;
                self.begin_body()?;
            }
        }
        Ok(())
    }

    fn begin_body(&mut self) -> Result<(), String> {
        let [kind, length @ ..] = self.head;
        self.body_left = match u32::from_be_bytes(length) as usize {
            length @ 4..=MAX_MESSAGE => length - 4,
            _ => return Err(NOT_POSTGRES.to_owned()),
        };
        match kind {
            READY => (self.was_ready, self.kept) = (true, 0),
            // Asynchronous messages, which the driver does not keep.
            NOTICE | NOTIFICATION if self.was_ready => {}
            _ => self.kept += self.body_left + MESSAGE_OVERHEAD,
        }
        if self.kept > MAX_MESSAGE { Err(reply_too_long()) } else { Ok(()) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match self.progress.receive(&buffer.filled()[before..]) {
            Ok(()) => read,
            Err(why) => {
                buffer.set_filled(before);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
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
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, length: usize) -> Vec<u8> {
        [&[kind][..], &(length as u32 + 4).to_be_bytes(), &vec![0; length]].concat()
    }

    #[test]
    fn messages_are_received_at_every_split_and_rejected_when_too_long() {
        let good = [message(b'R', 4), message(READY, 1), message(b'D', 300), message(READY, 1)].concat();
        for size in 1..good.len() {
            let mut progress = MessageProgress::default();
            assert_eq!(good.chunks(size).try_for_each(|piece| progress.receive(piece)), Ok(()));
            assert_eq!((progress.kept, progress.head_length, progress.body_left), (0, 0, 0));
        }
        for length in [0_u32, 3, MAX_MESSAGE as u32 + 1, i32::MAX as u32, u32::MAX] {
            assert!(
                MessageProgress::default().receive(&[&b"R"[..], &length.to_be_bytes()].concat()).is_err()
            );
        }
    }

    #[test]
    fn a_reply_is_limited_and_asynchronous_messages_are_not() {
        let count = |kind, most| {
            let (mut progress, one) = (MessageProgress::default(), message(kind, 1_000));
            progress.receive(&message(READY, 1)).expect("the server is ready");
            (0..most).take_while(|_| progress.receive(&one).is_ok()).count()
        };
        assert!((MAX_MESSAGE / 1_200..MAX_MESSAGE / 1_000).contains(&count(b'D', usize::MAX)));
        assert_eq!(count(NOTIFICATION, MAX_MESSAGE / 500), MAX_MESSAGE / 500);
        let mut new = MessageProgress::default();
        let kept = std::iter::repeat_with(|| new.receive(&message(NOTICE, 1_000))).take_while(Result::is_ok);
        assert!(kept.count() < MAX_MESSAGE / 1_000, "notices before the server is ready are kept");
    }
}
