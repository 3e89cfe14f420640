//! One connection on which many tasks send requests at once. Requests are written in the order of sending,
//! and replies arrive in the same order.
//!
//! A task that sends while nothing is outstanding writes its request itself, so no task switch is needed.
//! Requests that other tasks send meanwhile are left to the read task, which writes them together. It does
//! not wait until there are so many that the server would run out of work.
//!
//! A request that is abandoned before its first byte was written is withdrawn: it is never sent. Requests
//! that are *kept* are sent in any case.
//!
//! A *retired* connection takes no new requests from its users, and still answers the outstanding ones. A
//! *closed* one answers nothing.

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

use self::backlog::{Backlog, Group, WaitingRequest};
use self::read_buffer::ReadBuffer;
use super::connection_error::ConnectionError;
use crate::poison::lock_ignoring_poison;

/// A backlog of this size is written at once.
const FLUSH_AT: usize = 4 * 1024;

/// How replies are parsed, and what becomes of messages that are no replies.
pub(crate) trait Codec: Send + Sync + 'static {
    /// A reply.
    type Reply: Send + Unpin + 'static;
    /// Known when a request is sent, and needed to parse its reply. `()` if replies describe themselves.
    type Expected: Copy + Send + Unpin + 'static;
    /// The parse state of a reply that has not arrived in full.
    type ParseProgress: Default + Send + Unpin + 'static;

    /// The maximum number of bytes that `decode` leaves unread, before it returns a reply or an error.
    const MAX_UNREAD: usize;

    /// Sent when the pipeline is dropped. The connection then ends when the outstanding requests are
    /// answered. `None`: a dropped pipeline closes at once.
    const TERMINATE: Option<&'static [u8]> = None;

    /// Takes the first reply from `bytes`, and advances `bytes` behind it. `None` if the reply has not
    /// arrived in full: what `bytes` still contains is seen again when more bytes are behind it, with
    /// `progress` as this left it. `progress` is new for each reply; the codec sees to that. `expected`
    /// belongs to the request of this reply. It returns `None` if no request is outstanding.
    ///
    /// # Errors
    /// Why the connection cannot be used any more.
    fn decode(
        &self,
        bytes: &mut &[u8],
        progress: &mut Self::ParseProgress,
        expected: impl FnOnce() -> Option<Self::Expected>,
    ) -> Result<Option<Self::Reply>, String>;

    /// Takes a message that answers no request. Returns a reply.
    fn take_push(&self, reply: Self::Reply) -> Option<Self::Reply> {
        Some(reply)
    }

    /// Pushed messages no longer arrive, or are no longer to be trusted.
    fn on_retired(&self) {}
}

/// A connection. Once closed it stays closed; its users open another.
pub(crate) struct Pipeline<C: Codec>(Arc<PipelineState<C>>);

/// The reply to one request. An error: it will not arrive.
pub(crate) type PendingReply<R> = oneshot::Receiver<R>;

/// The state that the users of a pipeline and its read task share.
struct PipelineState<C: Codec> {
    codec: C,
    /// No new request should be sent. Outstanding ones may still be answered.
    retired: AtomicBool,
    closed: AtomicBool,
    outgoing: Mutex<Outgoing<C>>,
}

/// The write half, and the requests that wait for a reply.
struct Outgoing<C: Codec> {
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    backlog: Backlog,
    /// The writer takes no more for now, or has not flushed all that it took.
    is_full: bool,
    /// In the order of the requests, those in the backlog included.
    waiting: VecDeque<WaitingRequest<C::Reply, C::Expected>>,
    /// Wakes the read task.
    read_task: Option<Waker>,
    /// The read task has been woken and will look at the backlog.
    is_woken: bool,
    /// The pipeline was dropped. The connection ends when nothing is outstanding.
    is_dropped: bool,
    /// Why the connection is closed.
    reason: ConnectionError,
}

impl<C: Codec> Pipeline<C> {
    /// Over the two halves of a stream with nothing outstanding. Its read task belongs to this runtime, and
    /// ends with it.
    pub(crate) fn over<R, W>(codec: C, halves: (R, W)) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let (pipeline, read_task) = Self::with_read_task(codec, halves);
        tokio::spawn(read_task);
        pipeline
    }

    /// [`Pipeline::over`], for callers that choose where the read task runs.
    pub(crate) fn with_read_task<R, W>(codec: C, (reader, writer): (R, W)) -> (Self, ReadTask<C, R>)
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
            is_dropped: false,
            reason: ConnectionError::default(),
        };
        let shared = Arc::new(PipelineState {
            codec,
            retired: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            outgoing: Mutex::new(outgoing),
        });
        // On a multi-thread runtime a woken task may run before the tasks that were woken with it.
        let yields = Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread;
        let (buffer, replies, receivers) = (ReadBuffer::new(), Vec::new(), Vec::new());
        let read_task = ReadTask {
            shared: shared.clone(),
            reader,
            buffer,
            progress: C::ParseProgress::default(),
            replies,
            receivers,
            yields,
            has_yielded: false,
            reason: None,
        };
        (Self(shared), read_task)
    }

    /// Whether every request would stay unanswered.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Whether no new request should be sent.
    pub(crate) fn is_retired(&self) -> bool {
        self.0.retired.load(Ordering::Acquire)
    }

    /// Why it is closed.
    pub(crate) fn reason(&self) -> ConnectionError {
        lock_ignoring_poison(&self.0.outgoing).reason.clone()
    }

    /// No new request is to be sent, and pushed messages are no longer trusted. Outstanding requests may
    /// still be answered.
    pub(crate) fn retire(&self) {
        self.0.retire();
    }

    /// Outstanding requests stay unanswered.
    pub(crate) fn close(&self, reason: &str) {
        self.0.close(reason.into());
    }

    /// Sends one request behind all that were sent before. If its reply is dropped before any byte was
    /// written, the request is never sent. `None` if the connection is closed; nothing was sent then.
    pub(crate) fn send(&self, request: &[u8], expected: C::Expected) -> Option<PendingReply<C::Reply>> {
        self.send_one(request, expected, false)
    }

    /// [`Pipeline::send`] for a request that is sent even if its reply is dropped.
    pub(crate) fn send_kept(&self, request: &[u8], expected: C::Expected) -> Option<PendingReply<C::Reply>> {
        self.send_one(request, expected, true)
    }

    /// Sends several requests, with no other between them. They are withdrawn only if all their replies are
    /// dropped.
    pub(crate) fn send_all(
        &self,
        requests: &[u8],
        expected: impl IntoIterator<Item = C::Expected>,
    ) -> Option<Vec<PendingReply<C::Reply>>> {
        self.send_group(requests, expected, false)
    }

    /// [`Pipeline::send_all`] for requests that are sent even if all their replies are dropped.
    pub(crate) fn send_all_kept(
        &self,
        requests: &[u8],
        expected: impl IntoIterator<Item = C::Expected>,
    ) -> Option<Vec<PendingReply<C::Reply>>> {
        self.send_group(requests, expected, true)
    }

    fn send_one(
        &self,
        request: &[u8],
        expected: C::Expected,
        is_kept: bool,
    ) -> Option<PendingReply<C::Reply>> {
        let (sender, reply) = oneshot::channel();
        self.0.send(request, [WaitingRequest { sender, expected }], is_kept).then_some(reply)
    }

    fn send_group(
        &self,
        requests: &[u8],
        expected: impl IntoIterator<Item = C::Expected>,
        is_kept: bool,
    ) -> Option<Vec<PendingReply<C::Reply>>> {
        let pair = |expected| {
            let (sender, reply) = oneshot::channel();
            (WaitingRequest { sender, expected }, reply)
        };
        let (waiting, replies): (Vec<_>, _) = expected.into_iter().map(pair).unzip();
        self.0.send(requests, waiting, is_kept).then_some(replies)
    }
}

impl<C: Codec> Drop for Pipeline<C> {
    fn drop(&mut self) {
        match C::TERMINATE {
            None => self.0.close("it is no longer used".into()),
            Some(message) => self.0.terminate(message),
        }
    }
}

impl<C: Codec> PipelineState<C> {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            self.codec.on_retired();
        }
    }

    fn close(&self, reason: ConnectionError) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut outgoing = lock_ignoring_poison(&self.outgoing);
        outgoing.reason = reason;
        // Drops its half of the socket now, or the server would keep the connection until another takes its
        // place.
        outgoing.writer = Box::pin(tokio::io::sink());
        let (unanswered, read_task) = (std::mem::take(&mut outgoing.waiting), outgoing.read_task.take());
        drop(outgoing);
        self.retire();
        drop(unanswered);
        read_task.into_iter().for_each(Waker::wake);
    }

    /// Sends the last message. The read task closes the connection when nothing is outstanding.
    fn terminate(&self, message: &[u8]) {
        self.retire();
        let mut outgoing = lock_ignoring_poison(&self.outgoing);
        outgoing.is_dropped = true;
        drop(outgoing);
        self.send(message, [], true);
        // Also if all of it was written: nothing else would tell the read task.
        let read_task = lock_ignoring_poison(&self.outgoing).read_task.clone();
        read_task.into_iter().for_each(Waker::wake);
    }

    /// The codec's data about the request with this position among those that wait for a reply.
    fn expected(&self, position: usize) -> Option<C::Expected> {
        lock_ignoring_poison(&self.outgoing).waiting.get(position).map(|request| request.expected)
    }

    fn send(
        &self,
        requests: &[u8],
        waiting: impl IntoIterator<Item = WaitingRequest<C::Reply, C::Expected>>,
        is_kept: bool,
    ) -> bool {
        let mut outgoing = lock_ignoring_poison(&self.outgoing);
        // Under the lock that `close` takes: no request is left in a pipeline that nobody reads.
        if self.is_closed() {
            return false;
        }
        let sent = outgoing.send(requests, waiting, is_kept);
        let read_task = outgoing.read_task_to_wake();
        drop(outgoing);
        match sent {
            Ok(()) => read_task.into_iter().for_each(Waker::wake),
            Err(error) => self.close(error.into()),
        }
        true
    }
}

impl<C: Codec> Outgoing<C> {
    fn send(
        &mut self,
        requests: &[u8],
        waiting: impl IntoIterator<Item = WaitingRequest<C::Reply, C::Expected>>,
        is_kept: bool,
    ) -> io::Result<()> {
        let (is_idle, others) = (self.waiting.is_empty() && self.backlog.is_empty(), self.waiting.len());
        self.waiting.extend(waiting);
        let group = Group { replies: self.waiting.len() - others, is_kept };
        // The read task continues what this write leaves, so the socket gets the waker of the read task.
        let Some(read_task) = self.read_task.clone().filter(|_| !self.is_full) else {
            self.backlog.push(requests, 0, group);
            self.backlog.tidy(&mut self.waiting);
            return Ok(());
        };
        let mut context = Context::from_waker(&read_task);
        if is_idle {
            let (written, is_full) = write(self.writer.as_mut(), &mut context, requests)?;
            self.backlog.push(requests, written, group);
            self.is_full = is_full;
            return Ok(());
        }
        self.backlog.push(requests, 0, group);
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

    fn is_done(&self) -> bool {
        self.is_dropped && !self.is_full && self.waiting.is_empty() && self.backlog.is_empty()
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

/// Reads replies, and writes the backlog. Dropped, also with its runtime, it closes the connection.
pub(crate) struct ReadTask<C: Codec, R> {
    shared: Arc<PipelineState<C>>,
    reader: R,
    buffer: ReadBuffer,
    progress: C::ParseProgress,
    /// Empty between reads. Kept for its capacity, as is `receivers`.
    replies: Vec<C::Reply>,
    receivers: Vec<oneshot::Sender<C::Reply>>,
    yields: bool,
    /// Other tasks had their turn since there was something to write.
    has_yielded: bool,
    /// Why it is over.
    reason: Option<ConnectionError>,
}

impl<C: Codec, R: AsyncRead + Unpin> ReadTask<C, R> {
    /// Reads until nothing more has arrived.
    ///
    /// # Errors
    /// Why the connection ended.
    fn read(&mut self, context: &mut Context<'_>) -> Result<(), ConnectionError> {
        loop {
            let Some(room) = self.buffer.room(C::MAX_UNREAD) else {
                return Err(format!("a reply of more than {} bytes", C::MAX_UNREAD).into());
            };
            let mut read = ReadBuf::new(room);
            match Pin::new(&mut self.reader).poll_read(context, &mut read) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Ready(Ok(())) if read.filled().is_empty() => {
                    return Err("the connection was closed".into());
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
    fn dispatch(&mut self) -> Result<(), ConnectionError> {
        let Self { shared, buffer, progress, replies, receivers, .. } = self;
        let parsed = loop {
            let mut unread = buffer.unread();
            if unread.is_empty() {
                break Ok(());
            }
            let position = replies.len();
            let decoded = shared.codec.decode(&mut unread, progress, || shared.expected(position));
            let length = buffer.unread().len() - unread.len();
            match decoded {
                Err(why) => break Err(ConnectionError::unreadable(buffer.unread(), why)),
                Ok(reply) => {
                    let is_partial = reply.is_none();
                    replies.extend(reply.and_then(|reply| shared.codec.take_push(reply)));
                    buffer.consume(length);
                    if is_partial {
                        break Ok(());
                    }
                }
            }
        };
        if !replies.is_empty() {
            let mut outgoing = lock_ignoring_poison(&shared.outgoing);
            let expected = replies.len().min(outgoing.waiting.len());
            receivers.extend(outgoing.waiting.drain(..expected).map(|request| request.sender));
            drop(outgoing);
        }
        let is_too_much = replies.len() > receivers.len();
        // A reply is dropped if its request was abandoned.
        receivers.drain(..).zip(replies.drain(..)).for_each(|(receiver, reply)| drop(receiver.send(reply)));
        if is_too_much { Err("a reply to nothing".into()) } else { parsed }
    }

    /// Writes the backlog. Tasks that were woken together with this one are about to send more, so it yields
    /// to them once. Returns whether nothing is left to do.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
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
                return Ok(false);
            }
            outgoing.flush(context)?;
        }
        outgoing.is_woken = false;
        if !outgoing.read_task.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            outgoing.read_task = Some(context.waker().clone());
        }
        Ok(outgoing.is_done())
    }

    /// Reads and writes. Returns why the connection is over.
    fn work(&mut self, context: &mut Context<'_>) -> Option<ConnectionError> {
        if self.shared.is_closed() {
            return Some(ConnectionError::default());
        }
        match self.read(context) {
            Err(error) => Some(error),
            // Behind the replies: after the last of them nothing may be left to do.
            Ok(()) => match self.write(context) {
                Err(error) => Some(error.into()),
                Ok(is_done) => is_done.then(|| "it is no longer used".into()),
            },
        }
    }
}

impl<C: Codec, R: AsyncRead + Unpin> Future for ReadTask<C, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.reason = self.work(context);
        // Closed when this is dropped: its owner may have something to do before the requests fail.
        if self.reason.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<C: Codec, R> Drop for ReadTask<C, R> {
    fn drop(&mut self) {
        self.shared.close(self.reason.take().unwrap_or_else(|| "its runtime ended".into()));
    }
}
