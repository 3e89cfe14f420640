//! One connection on which many tasks send requests at once. Requests are written in the order of sending,
//! and replies arrive in the same order.
//!
//! A task that sends while nothing is outstanding writes its request itself, so no task switch is needed.
//! Requests that other tasks send meanwhile are left to the read task, which writes them together. It does
//! not wait until there are so many that the server would run out of work.

mod backlog;
mod read_buffer;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use self::backlog::Backlog;
use self::read_buffer::ReadBuffer;
use crate::poison::lock_ignoring_poison;

/// A backlog of this size is written at once.
const FLUSH_AT: usize = 4 * 1024;

/// How replies are parsed, and what becomes of messages that are no replies.
pub(crate) trait Codec: Send + Sync + 'static {
    /// A reply.
    type Reply: Send + Unpin + 'static;
    /// What is known of a reply that has not arrived in full.
    type ParseProgress: Default + Send + Unpin + 'static;

    /// The longest reply, in bytes.
    const MAX_REPLY: usize;

    /// The first reply in `bytes`, and its length; `None` if it has not arrived in full. The same reply is
    /// then parsed again when more bytes are behind these, with `progress` as this left it. `progress` is new
    /// for each reply; the codec sees to that.
    ///
    /// # Errors
    /// If these bytes are no reply. Nothing behind them can be parsed either.
    fn decode(
        &self,
        bytes: &[u8],
        progress: &mut Self::ParseProgress,
    ) -> Result<Option<(Self::Reply, usize)>, String>;

    /// Takes a message that answers no request. Returns a reply.
    fn take_push(&self, reply: Self::Reply) -> Option<Self::Reply>;

    /// Pushed messages no longer arrive, or are no longer to be trusted.
    fn on_retired(&self);
}

/// A connection. Once closed it stays closed; its users open another.
pub(crate) struct Pipeline<C: Codec>(Arc<Shared<C>>);

/// The reply to one request. An error: it will not arrive.
pub(crate) type PendingReply<R> = oneshot::Receiver<R>;

struct Shared<C: Codec> {
    codec: C,
    /// No new request should be sent. Outstanding ones may still be answered.
    retired: AtomicBool,
    closed: AtomicBool,
    outgoing: Mutex<Outgoing<C::Reply>>,
}

/// The write half, and the requests that wait for a reply.
struct Outgoing<R> {
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    backlog: Backlog,
    /// The writer takes no more for now, or has not flushed all that it took.
    is_full: bool,
    /// In the order of the requests, those in the backlog included.
    waiting: VecDeque<oneshot::Sender<R>>,
    /// Wakes the read task.
    read_task: Option<Waker>,
    /// The read task has been woken and will look at the backlog.
    is_woken: bool,
    /// Why the connection is closed.
    reason: String,
}

impl<C: Codec> Pipeline<C> {
    /// Over the two halves of a stream with nothing outstanding. Its read task belongs to this runtime, and
    /// ends with it.
    pub(crate) fn over<R, W>(codec: C, (reader, writer): (R, W)) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let outgoing = Outgoing {
            writer: Box::pin(writer),
            backlog: Backlog::default(),
            is_full: false,
            waiting: VecDeque::new(),
            read_task: None,
            is_woken: true,
            reason: String::new(),
        };
        let shared = Arc::new(Shared {
            codec,
            retired: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            outgoing: Mutex::new(outgoing),
        });
        // On a multi-thread runtime a woken task may run before the tasks that were woken with it.
        let yields = Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread;
        let (buffer, replies, receivers) = (ReadBuffer::new(), Vec::new(), Vec::new());
        tokio::spawn(ReadTask {
            shared: shared.clone(),
            reader,
            buffer,
            progress: C::ParseProgress::default(),
            replies,
            receivers,
            yields,
            has_yielded: false,
        });
        Self(shared)
    }

    /// Whether no new request should be sent.
    pub(crate) fn is_retired(&self) -> bool {
        self.0.retired.load(Ordering::Acquire)
    }

    /// Why it is closed.
    pub(crate) fn reason(&self) -> String {
        lock_ignoring_poison(&self.0.outgoing).reason.clone()
    }

    /// No new request is to be sent, and pushed messages are no longer trusted. Outstanding requests may
    /// still be answered.
    pub(crate) fn retire(&self) {
        self.0.retire();
    }

    /// Outstanding requests stay unanswered.
    pub(crate) fn close(&self, reason: &str) {
        self.0.close(reason);
    }

    /// Sends one request behind all that were sent before. If its reply is dropped before any byte was
    /// written, the request is never sent. `None` if the connection is closed; nothing was sent then.
    pub(crate) fn send(&self, request: &[u8]) -> Option<PendingReply<C::Reply>> {
        let (sender, reply) = oneshot::channel();
        self.0.send(request, [sender]).then_some(reply)
    }

    /// Sends several requests, with no other between them. They are withdrawn only if all their replies are
    /// dropped.
    pub(crate) fn send_all(&self, requests: &[u8], count: usize) -> Option<Vec<PendingReply<C::Reply>>> {
        let (senders, replies): (Vec<_>, _) = (0..count).map(|_| oneshot::channel()).unzip();
        self.0.send(requests, senders).then_some(replies)
    }
}

impl<C: Codec> Drop for Pipeline<C> {
    fn drop(&mut self) {
        self.0.close("it is no longer used");
    }
}

impl<C: Codec> Shared<C> {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            self.codec.on_retired();
        }
    }

    fn close(&self, reason: &str) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut outgoing = lock_ignoring_poison(&self.outgoing);
        outgoing.reason = reason.to_owned();
        // Drops its half of the socket now, or the server would keep the connection until another takes its
        // place.
        outgoing.writer = Box::pin(tokio::io::sink());
        let (unanswered, read_task) = (std::mem::take(&mut outgoing.waiting), outgoing.read_task.take());
        drop(outgoing);
        self.retire();
        drop(unanswered);
        read_task.into_iter().for_each(Waker::wake);
    }

    fn send(&self, requests: &[u8], senders: impl IntoIterator<Item = oneshot::Sender<C::Reply>>) -> bool {
        let mut outgoing = lock_ignoring_poison(&self.outgoing);
        // Under the lock that `close` takes: no request is left in a pipeline that nobody reads.
        if self.is_closed() {
            return false;
        }
        let sent = outgoing.send(requests, senders);
        let read_task = outgoing.read_task_to_wake();
        drop(outgoing);
        match sent {
            Ok(()) => read_task.into_iter().for_each(Waker::wake),
            Err(error) => self.close(&error.to_string()),
        }
        true
    }
}

impl<R> Outgoing<R> {
    fn send(
        &mut self,
        requests: &[u8],
        senders: impl IntoIterator<Item = oneshot::Sender<R>>,
    ) -> io::Result<()> {
        let (is_idle, others) = (self.waiting.is_empty() && self.backlog.is_empty(), self.waiting.len());
        self.waiting.extend(senders);
        let count = self.waiting.len() - others;
        // The read task continues what this write leaves, so the socket gets the waker of the read task.
        let Some(read_task) = self.read_task.clone().filter(|_| !self.is_full) else {
            self.backlog.push(requests, 0, count);
            self.backlog.tidy(&mut self.waiting);
            return Ok(());
        };
        let mut context = Context::from_waker(&read_task);
        if is_idle {
            let (written, is_full) = write(self.writer.as_mut(), &mut context, requests)?;
            self.backlog.push(requests, written, count);
            self.is_full = is_full;
            return Ok(());
        }
        self.backlog.push(requests, 0, count);
        if self.backlog.bytes().len() < FLUSH_AT { Ok(()) } else { self.flush(&mut context) }
    }

    fn flush(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.backlog.remove_abandoned(&mut self.waiting);
        let (written, is_full) = write(self.writer.as_mut(), context, self.backlog.bytes())?;
        self.backlog.wrote(written);
        self.is_full = is_full;
        Ok(())
    }

    /// The read task, if there is a backlog that it would not look at otherwise.
    fn read_task_to_wake(&mut self) -> Option<Waker> {
        if self.is_woken || self.is_full || self.backlog.is_empty() {
            return None;
        }
        self.is_woken = true;
        self.read_task.clone()
    }
}

/// Writes what the writer takes. Returns how much that is, and whether the writer is full.
fn write(
    mut writer: Pin<&mut (dyn AsyncWrite + Send)>,
    context: &mut Context<'_>,
    bytes: &[u8],
) -> io::Result<(usize, bool)> {
    let mut written = 0;
    while written < bytes.len() {
        match writer.as_mut().poll_write(context, &bytes[written..]) {
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(more) => written += more?,
            Poll::Pending => return Ok((written, true)),
        }
    }
    match writer.poll_flush(context) {
        Poll::Ready(flushed) => flushed.map(|()| (written, false)),
        Poll::Pending => Ok((written, true)),
    }
}

/// Reads replies, and writes the backlog. Dropped with its runtime, it closes the connection.
struct ReadTask<C: Codec, R> {
    shared: Arc<Shared<C>>,
    reader: R,
    buffer: ReadBuffer,
    progress: C::ParseProgress,
    /// Empty between reads. Kept for its capacity, as is `receivers`.
    replies: Vec<C::Reply>,
    receivers: Vec<oneshot::Sender<C::Reply>>,
    yields: bool,
    /// Other tasks had their turn since there was something to write.
    has_yielded: bool,
}

impl<C: Codec, R: AsyncRead + Unpin> ReadTask<C, R> {
    /// Reads until nothing more has arrived.
    ///
    /// # Errors
    /// Why the connection ended.
    fn read(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        loop {
            let Some(room) = self.buffer.room(C::MAX_REPLY) else {
                return Err(format!("a reply of more than {} bytes", C::MAX_REPLY));
            };
            let mut read = ReadBuf::new(room);
            match Pin::new(&mut self.reader).poll_read(context, &mut read) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(error.to_string()),
                Poll::Ready(Ok(())) if read.filled().is_empty() => {
                    return Err("the connection was closed".to_owned());
                }
                Poll::Ready(Ok(())) => {
                    let length = read.filled().len();
                    self.buffer.filled(length);
                }
            }
            self.dispatch()?;
        }
    }

    /// Hands every complete reply to its request.
    fn dispatch(&mut self) -> Result<(), String> {
        let Self { shared, buffer, progress, replies, receivers, .. } = self;
        let parsed = loop {
            if buffer.unread().is_empty() {
                break Ok(());
            }
            match shared.codec.decode(buffer.unread(), progress) {
                Ok(None) => break Ok(()),
                Ok(Some((reply, length))) => {
                    buffer.consume(length);
                    replies.extend(shared.codec.take_push(reply));
                }
                Err(why) => break Err(format!("it sent what cannot be understood: {why}")),
            }
        };
        if !replies.is_empty() {
            let mut outgoing = lock_ignoring_poison(&shared.outgoing);
            let expected = replies.len().min(outgoing.waiting.len());
            receivers.extend(outgoing.waiting.drain(..expected));
            drop(outgoing);
        }
        let is_too_much = replies.len() > receivers.len();
        // A reply is dropped if its request was abandoned.
        receivers.drain(..).zip(replies.drain(..)).for_each(|(receiver, reply)| drop(receiver.send(reply)));
        if is_too_much { Err("a reply to nothing".to_owned()) } else { parsed }
    }

    /// Writes the backlog. Tasks that were woken together with this one are about to send more, so it yields
    /// to them once.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut outgoing = lock_ignoring_poison(&self.shared.outgoing);
        // Under the lock that `close` takes: from here on it finds a waker.
        if self.shared.is_closed() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if outgoing.is_full || !outgoing.backlog.is_empty() {
            self.has_yielded = self.yields && !self.has_yielded;
            if self.has_yielded {
                outgoing.is_woken = true;
                context.waker().wake_by_ref();
                return Ok(());
            }
            outgoing.flush(context)?;
        }
        outgoing.is_woken = false;
        if !outgoing.read_task.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            outgoing.read_task = Some(context.waker().clone());
        }
        Ok(())
    }
}

impl<C: Codec, R: AsyncRead + Unpin> Future for ReadTask<C, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let closed = match this.shared.is_closed() {
            true => Some(String::new()),
            false => {
                this.read(context).err().or_else(|| this.write(context).err().map(|error| error.to_string()))
            }
        };
        match closed {
            Some(reason) => {
                this.shared.close(&reason);
                Poll::Ready(())
            }
            None => Poll::Pending,
        }
    }
}

impl<C: Codec, R> Drop for ReadTask<C, R> {
    fn drop(&mut self) {
        self.shared.close("its runtime ended");
    }
}
