//! A stream that limits the length of every message and every reply.
//!
//! The driver trusts every length that a server sends, and keeps all rows of a reply. So the server would
//! decide how much memory this process uses. This stream therefore reads the message headers as they pass.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::MOST;

/// The driver's overhead per message, in bytes, at most.
const BESIDES: usize = 128;
/// The message types that matter here.
const READY: u8 = b'Z';
const NOTICE: u8 = b'N';
const NOTIFICATION: u8 = b'A';

/// Reads from `S`, and fails when a message or a reply is too long.
pub(super) struct Bounded<S> {
    stream: S,
    passing: Passing,
}

/// The message that is being received.
#[derive(Default)]
struct Passing {
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
        Self { stream, passing: Passing::default() }
    }
}

impl Passing {
    /// # Errors
    /// If it is too long, or not a message.
    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let passed = self.body_left.min(bytes.len());
                (self.body_left, bytes) = (self.body_left - passed, &bytes[passed..]);
                continue;
            }
            let more = (self.head.len() - self.head_length).min(bytes.len());
            let (head, rest) = bytes.split_at(more);
            self.head[self.head_length..][..more].copy_from_slice(head);
            (self.head_length, bytes) = (self.head_length + more, rest);
            if self.head_length == self.head.len() {
                self.head_length = 0;
                self.begin()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        let [kind, length @ ..] = self.head;
        self.body_left = match u32::from_be_bytes(length) as usize {
            length @ 4..=MOST => length - 4,
            _ => return Err("it does not speak the protocol of PostgreSQL".to_owned()),
        };
        match kind {
            READY => (self.was_ready, self.kept) = (true, 0),
            // Asynchronous messages, which the driver does not keep.
            NOTICE | NOTIFICATION if self.was_ready => {}
            _ => self.kept += self.body_left + BESIDES,
        }
        if self.kept > MOST { Err(format!("an answer of more than {} MB", MOST >> 20)) } else { Ok(()) }
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
        match self.passing.pass(&buffer.filled()[before..]) {
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

    /// At every possible split.
    #[test]
    fn messages_pass_whole_and_in_pieces_and_too_long_ones_do_not() {
        let good = [message(b'R', 4), message(READY, 1), message(b'D', 300), message(READY, 1)].concat();
        for size in 1..good.len() {
            let mut passing = Passing::default();
            assert_eq!(good.chunks(size).try_for_each(|piece| passing.pass(piece)), Ok(()));
            assert_eq!((passing.kept, passing.head_length, passing.body_left), (0, 0, 0));
        }
        for length in [0_u32, 3, MOST as u32 + 1, i32::MAX as u32, u32::MAX] {
            assert!(Passing::default().pass(&[&b"R"[..], &length.to_be_bytes()].concat()).is_err());
        }
    }

    #[test]
    fn an_answer_has_an_end_and_what_is_said_unasked_needs_none() {
        let count = |kind, most| {
            let (mut passing, one) = (Passing::default(), message(kind, 1_000));
            passing.pass(&message(READY, 1)).expect("it is ready");
            (0..most).take_while(|_| passing.pass(&one).is_ok()).count()
        };
        assert!((MOST / 1_200..MOST / 1_000).contains(&count(b'D', usize::MAX)));
        assert_eq!(count(NOTIFICATION, MOST / 500), MOST / 500);
        let mut new = Passing::default();
        let kept = std::iter::repeat_with(|| new.pass(&message(NOTICE, 1_000))).take_while(Result::is_ok);
        assert!(kept.count() < MOST / 1_000, "what is said before it is ready is kept");
    }
}
