//! One connection: requests of many tasks, one after the other, and a task that reads the replies.
//!
//! Whoever asks writes for itself, without waiting: what does not fit is left to the task that reads.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

use super::greeting::Greeting;
use super::wire::{self, Reply, Requests};
use crate::engine::ClaimId;
use crate::engines::links::Connection;
use crate::locked::locked;
use crate::{Effect, Error, ErrorKind, Result};

/// A connection to one server. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Link {
    /// The life of the server at its other end: CAS ids mean something in that life only.
    pub(super) life: ClaimId,
    /// Whether the server evicts when it is out of memory, instead of refusing.
    pub(super) evicts: bool,
    place: String,
    shared: Arc<Shared>,
}

struct Shared {
    closed: AtomicBool,
    lane: Mutex<Lane>,
}

/// What goes out, and whom the replies are for.
struct Lane {
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    unsent: Vec<u8>,
    asked: VecDeque<Asked>,
    /// Wakes the task that reads.
    reader: Option<Waker>,
    /// Why the connection is closed.
    why: String,
}

/// Requests that were sent together.
struct Asked {
    replies: Vec<Reply>,
    count: usize,
    answer: oneshot::Sender<Vec<Reply>>,
}

impl Connection for Link {
    fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }
}

impl Link {
    /// Over a stream on which nothing is under way.
    pub(super) fn over<S>(stream: S, greeting: &Greeting, place: &str) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        let lane = Lane {
            writer: Box::pin(writer),
            unsent: Vec::new(),
            asked: VecDeque::new(),
            reader: None,
            why: String::new(),
        };
        let shared = Arc::new(Shared { closed: AtomicBool::new(false), lane: Mutex::new(lane) });
        tokio::spawn(Reading { shared: shared.clone(), reader, bytes: Vec::new() });
        Self { life: greeting.life, evicts: greeting.evicts, place: place.to_owned(), shared }
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// As [`Link::ask_all`].
    pub(super) async fn ask(&self, requests: Requests) -> Result<Reply> {
        let mut replies = self.ask_all(requests).await?;
        replies.pop().ok_or_else(|| self.broken("no reply"))
    }

    /// Asks for several things in one round trip. There are as many replies as requests.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if the connection ends before all are answered. Dropped, it closes the connection: the
    /// core waited long enough, and it may be cut off without a word.
    pub(super) async fn ask_all(&self, requests: Requests) -> Result<Vec<Reply>> {
        let answer = self.send(requests)?;
        let unheard = Unheard(&self.shared);
        let answer = answer.await;
        std::mem::forget(unheard);
        answer.map_err(|_| self.broken(&self.shared.why()))
    }

    /// The same for one who only looks, and may stop at any time: that says nothing of the connection.
    pub(super) async fn glance(&self, requests: Requests) -> Result<Reply> {
        let replies = self.send(requests)?.await;
        replies.ok().and_then(|mut replies| replies.pop()).ok_or_else(|| self.broken(&self.shared.why()))
    }

    fn send(&self, requests: Requests) -> Result<oneshot::Receiver<Vec<Reply>>> {
        let sent = self.shared.send(requests);
        sent.ok_or_else(|| self.broken(&self.shared.why()).with_effect(Effect::None))
    }

    /// A reply that is none to what was asked: the server refuses, or speaks of something else.
    pub(super) fn strange(&self, reply: &Reply) -> Error {
        if let Reply::Refused(why) = reply {
            return self.broken(why).with_effect(Effect::None);
        }
        let why = format!("a reply to something else: {}", wire::shown(&format!("{reply:?}")));
        self.shared.close(&why);
        self.broken(&why)
    }

    fn broken(&self, why: &str) -> Error {
        let message = format!("memcached at {}: {why}", self.place);
        Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.close("it is no longer used");
    }
}

/// A request that was dropped before its answer came.
struct Unheard<'a>(&'a Shared);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        self.0.close("no answer in time");
    }
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn why(&self) -> String {
        locked(&self.lane).why.clone()
    }

    /// What was asked and not answered stays unanswered.
    fn close(&self, why: &str) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut lane = locked(&self.lane);
        lane.why = why.to_owned();
        // Its half of the socket goes at once, or the server would keep the connection until another takes its place.
        lane.writer = Box::pin(tokio::io::sink());
        let (unanswered, reader) = (std::mem::take(&mut lane.asked), lane.reader.take());
        drop(lane);
        drop(unanswered);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Writes what it can at once; `None` if the connection is closed, and nothing was sent.
    fn send(&self, requests: Requests) -> Option<oneshot::Receiver<Vec<Reply>>> {
        let (answer, receiver) = oneshot::channel();
        let mut lane = locked(&self.lane);
        // Under the lock that closing takes: nobody is left behind in a lane that nobody reads.
        if self.is_closed() {
            return None;
        }
        let Requests { bytes, count } = requests;
        lane.asked.push_back(Asked { replies: Vec::with_capacity(count), count, answer });
        if lane.unsent.is_empty() {
            lane.unsent = bytes;
        } else {
            lane.unsent.extend_from_slice(&bytes);
        }
        // The task that reads goes on where this stops: it is its waker that the socket gets.
        let failed =
            lane.reader.clone().and_then(|reader| match lane.flush(&mut Context::from_waker(&reader)) {
                Poll::Ready(Err(error)) => Some(error),
                _ => None,
            });
        drop(lane);
        if let Some(error) = failed {
            self.close(&error.to_string());
        }
        Some(receiver)
    }

    /// Hands out the replies in `bytes`, and leaves there what has not come in full.
    fn hand_out(&self, bytes: &mut Vec<u8>) -> Result<(), wire::Strange> {
        let (mut at, mut lane) = (0, locked(&self.lane));
        let read = loop {
            match wire::read(&bytes[at..]) {
                Ok(None) => break Ok(()),
                Err(strange) => break Err(strange),
                Ok(Some((reply, length))) => {
                    at += length;
                    if !lane.answer(reply) {
                        break Err(wire::Strange("a reply to nothing".to_owned()));
                    }
                }
            }
        };
        bytes.drain(..at);
        read
    }
}

impl Lane {
    fn flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut written = 0;
        while written < self.unsent.len() {
            match self.writer.as_mut().poll_write(context, &self.unsent[written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => written += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        self.unsent.drain(..written);
        self.writer.as_mut().poll_flush(context)
    }

    /// A reply to the oldest request. False if there is none.
    fn answer(&mut self, reply: Reply) -> bool {
        let Some(asked) = self.asked.front_mut() else { return false };
        asked.replies.push(reply);
        if asked.replies.len() == asked.count
            && let Some(asked) = self.asked.pop_front()
        {
            // Nobody listens any more: then the connection is closed.
            let _ = asked.answer.send(asked.replies);
        }
        true
    }
}

/// The task that reads. Dropped with its runtime, it closes the connection.
struct Reading<R> {
    shared: Arc<Shared>,
    reader: R,
    bytes: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Reading<R> {
    /// Reads until there is nothing more, or the connection ends.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<String> {
        let mut chunk = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut chunk);
            if let Err(error) = ready!(Pin::new(&mut self.reader).poll_read(context, &mut buffer)) {
                return Poll::Ready(error.to_string());
            }
            if buffer.filled().is_empty() {
                return Poll::Ready("the connection was closed".to_owned());
            }
            self.bytes.extend_from_slice(buffer.filled());
            if let Err(wire::Strange(why)) = self.shared.hand_out(&mut self.bytes) {
                return Poll::Ready(format!("it sent what cannot be understood: {why}"));
            }
        }
    }
}

impl<R: AsyncRead + Unpin> Future for Reading<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut lane = locked(&self.shared.lane);
        lane.reader = Some(context.waker().clone());
        let flushed = lane.flush(context);
        drop(lane);
        if let Poll::Ready(Err(error)) = flushed {
            self.shared.close(&error.to_string());
        }
        if !self.shared.is_closed() {
            let why = ready!(self.poll_end(context));
            self.shared.close(&why);
        }
        Poll::Ready(())
    }
}

impl<R> Drop for Reading<R> {
    fn drop(&mut self) {
        self.shared.close("its runtime ended");
    }
}
