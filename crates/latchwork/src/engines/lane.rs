//! A connection on which many tasks ask at once: their requests go out in the order in which they came, and the answers come back
//! in the same.
//!
//! Who asks while nothing is under way writes for itself, so that its request changes no task. What others ask meanwhile is left
//! to the task that reads: it goes out together, but not so much of it that the server has nothing to do until then.

mod backlog;
mod inbox;
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
use self::inbox::Inbox;
use crate::locked::locked;

/// So much goes out without waiting for more.
const ENOUGH: usize = 4 * 1024;

/// What the two ends say.
pub(super) trait Protocol: Send + Sync + 'static {
    /// An answer.
    type Reply: Send + Unpin + 'static;
    /// What is known of an answer that has not come in full.
    type Begun: Default + Send + Unpin + 'static;

    /// The longest reply, in bytes.
    const LONGEST: usize;

    /// The first reply in `bytes`, and its length; `None` if it has not come in full. Then it is read again when there is more behind
    /// them, with `begun` as it was left; with a new reply that is as new, which is up to this.
    ///
    /// # Errors
    /// If it is none. Whatever follows cannot be understood either.
    fn read(&self, bytes: &[u8], begun: &mut Self::Begun) -> Result<Option<(Self::Reply, usize)>, String>;

    /// Takes what nobody asked for. An answer comes back.
    fn hear(&self, reply: Self::Reply) -> Option<Self::Reply>;

    /// Nothing is heard any more.
    fn ended(&self);
}

/// The connection. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Lane<P: Protocol>(Arc<Shared<P>>);

/// The answer to one request. An error: it will not come.
pub(super) type Answer<R> = oneshot::Receiver<R>;

struct Shared<P: Protocol> {
    protocol: P,
    /// Whether nobody should begin to use it.
    retired: AtomicBool,
    closed: AtomicBool,
    out: Mutex<Out<P::Reply>>,
}

/// What goes out, and whom the answers are for.
struct Out<R> {
    writer: Pin<Box<dyn AsyncWrite + Send>>,
    backlog: Backlog,
    /// Whether the writer takes no more for now, or has not passed on all that it took.
    is_full: bool,
    asked: VecDeque<oneshot::Sender<R>>,
    /// Wakes the task that reads.
    reader: Option<Waker>,
    /// Whether it is about to look anyway.
    is_rung: bool,
    /// Why the connection is closed.
    why: String,
}

impl<P: Protocol> Lane<P> {
    /// Over the two halves of a stream on which nothing is under way. It lives on this runtime, and ends with it.
    pub(super) fn over<R, W>(protocol: P, (reader, writer): (R, W)) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let out = Out {
            writer: Box::pin(writer),
            backlog: Backlog::default(),
            is_full: false,
            asked: VecDeque::new(),
            reader: None,
            is_rung: true,
            why: String::new(),
        };
        let shared = Arc::new(Shared {
            protocol,
            retired: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            out: Mutex::new(out),
        });
        // Where a task that is woken runs next, it would run before the others that were woken with it.
        let yields = Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread;
        let (inbox, replies, answered) = (Inbox::new(), Vec::new(), Vec::new());
        tokio::spawn(Reading {
            shared: shared.clone(),
            reader,
            inbox,
            begun: P::Begun::default(),
            replies,
            answered,
            yields,
            has_yielded: false,
        });
        Self(shared)
    }

    /// Whether nobody should begin to use it.
    pub(super) fn is_retired(&self) -> bool {
        self.0.retired.load(Ordering::Acquire)
    }

    /// Why it is closed.
    pub(super) fn why(&self) -> String {
        locked(&self.0.out).why.clone()
    }

    /// Nobody trusts it any more: who relies on what it says is told. What was asked may still be answered.
    #[cfg(feature = "redis")]
    pub(super) fn retire(&self) {
        self.0.retire();
    }

    /// What was asked and not answered stays unanswered.
    #[cfg(feature = "memcached")]
    pub(super) fn close(&self, why: &str) {
        self.0.close(why);
    }

    /// Sends one request, behind all that were sent before. Given up, by dropping its answer, it still goes out if any of it has:
    /// otherwise never. `None` if the connection is closed, and nothing was sent.
    pub(super) fn send(&self, request: &[u8]) -> Option<Answer<P::Reply>> {
        let (answer, answered) = oneshot::channel();
        self.0.send(request, [answer]).then_some(answered)
    }

    /// The same for several that follow each other without any other between them: given up, if all are.
    pub(super) fn send_all(&self, requests: &[u8], count: usize) -> Option<Vec<Answer<P::Reply>>> {
        let (answers, answered): (Vec<_>, _) = (0..count).map(|_| oneshot::channel()).unzip();
        self.0.send(requests, answers).then_some(answered)
    }
}

impl<P: Protocol> Drop for Lane<P> {
    fn drop(&mut self) {
        self.0.close("it is no longer used");
    }
}

impl<P: Protocol> Shared<P> {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            self.protocol.ended();
        }
    }

    fn close(&self, why: &str) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut out = locked(&self.out);
        out.why = why.to_owned();
        // Its half of the socket goes at once, or the server would keep the connection until another takes its place.
        out.writer = Box::pin(tokio::io::sink());
        let (unanswered, reader) = (std::mem::take(&mut out.asked), out.reader.take());
        drop(out);
        self.retire();
        drop(unanswered);
        reader.into_iter().for_each(Waker::wake);
    }

    fn send(&self, requests: &[u8], answers: impl IntoIterator<Item = oneshot::Sender<P::Reply>>) -> bool {
        let mut out = locked(&self.out);
        // Under the lock that closing takes: nobody is left behind in a lane that nobody reads.
        if self.is_closed() {
            return false;
        }
        let sent = out.send(requests, answers);
        let rung = out.rings();
        drop(out);
        match sent {
            Ok(()) => rung.into_iter().for_each(Waker::wake),
            Err(error) => self.close(&error.to_string()),
        }
        true
    }
}

impl<R> Out<R> {
    fn send(
        &mut self,
        requests: &[u8],
        answers: impl IntoIterator<Item = oneshot::Sender<R>>,
    ) -> io::Result<()> {
        let (is_idle, others) = (self.asked.is_empty() && self.backlog.is_empty(), self.asked.len());
        self.asked.extend(answers);
        let answers = self.asked.len() - others;
        // The task that reads goes on where this stops: it is its waker that the socket gets.
        let Some(reader) = self.reader.clone().filter(|_| !self.is_full) else {
            self.backlog.keep(requests, 0, answers);
            self.backlog.tidy(&mut self.asked);
            return Ok(());
        };
        let mut context = Context::from_waker(&reader);
        if is_idle {
            let (written, is_full) = write(self.writer.as_mut(), &mut context, requests)?;
            self.backlog.keep(requests, written, answers);
            self.is_full = is_full;
            return Ok(());
        }
        self.backlog.keep(requests, 0, answers);
        if self.backlog.bytes().len() < ENOUGH { Ok(()) } else { self.flush(&mut context) }
    }

    fn flush(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.backlog.forget_given_up(&mut self.asked);
        let (written, is_full) = write(self.writer.as_mut(), context, self.backlog.bytes())?;
        self.backlog.wrote(written);
        self.is_full = is_full;
        Ok(())
    }

    /// Whom to wake if there is something to write that nobody would look at.
    fn rings(&mut self) -> Option<Waker> {
        if self.is_rung || self.is_full || self.backlog.is_empty() {
            return None;
        }
        self.is_rung = true;
        self.reader.clone()
    }
}

/// Writes what it can. How much that is, and whether the writer is full.
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

/// The task that reads. Dropped with its runtime, it closes the connection.
struct Reading<P: Protocol, R> {
    shared: Arc<Shared<P>>,
    reader: R,
    inbox: Inbox,
    begun: P::Begun,
    /// Kept for their room.
    replies: Vec<P::Reply>,
    answered: Vec<oneshot::Sender<P::Reply>>,
    yields: bool,
    /// Whether others had their turn since there was something to write.
    has_yielded: bool,
}

impl<P: Protocol, R: AsyncRead + Unpin> Reading<P, R> {
    /// Reads until there is nothing more.
    ///
    /// # Errors
    /// Why the connection ended.
    fn read(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        loop {
            let Some(room) = self.inbox.room(P::LONGEST) else {
                return Err(format!("a reply of more than {} bytes", P::LONGEST));
            };
            let mut buffer = ReadBuf::new(room);
            match Pin::new(&mut self.reader).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(error.to_string()),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    return Err("the connection was closed".to_owned());
                }
                Poll::Ready(Ok(())) => {
                    let length = buffer.filled().len();
                    self.inbox.arrived(length);
                }
            }
            self.hand_out()?;
        }
    }

    /// Hands out what has come in full.
    fn hand_out(&mut self) -> Result<(), String> {
        let Self { shared, inbox, begun, replies, answered, .. } = self;
        let read = loop {
            if inbox.unread().is_empty() {
                break Ok(());
            }
            match shared.protocol.read(inbox.unread(), begun) {
                Ok(None) => break Ok(()),
                Ok(Some((reply, length))) => {
                    inbox.read(length);
                    replies.extend(shared.protocol.hear(reply));
                }
                Err(why) => break Err(format!("it sent what cannot be understood: {why}")),
            }
        };
        if !replies.is_empty() {
            let mut out = locked(&shared.out);
            let expected = replies.len().min(out.asked.len());
            answered.extend(out.asked.drain(..expected));
            drop(out);
        }
        let is_too_much = replies.len() > answered.len();
        // Nobody may listen any more: then the answer is dropped.
        answered.drain(..).zip(replies.drain(..)).for_each(|(answer, reply)| drop(answer.send(reply)));
        if is_too_much { Err("a reply to nothing".to_owned()) } else { read }
    }

    /// Writes what was left to this task. The others that were woken with it are about to ask as well.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let mut out = locked(&self.shared.out);
        // Under the lock that closing takes: from here on it finds whom to wake.
        if self.shared.is_closed() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if out.is_full || !out.backlog.is_empty() {
            self.has_yielded = self.yields && !self.has_yielded;
            if self.has_yielded {
                out.is_rung = true;
                context.waker().wake_by_ref();
                return Ok(());
            }
            out.flush(context)?;
        }
        out.is_rung = false;
        if !out.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            out.reader = Some(context.waker().clone());
        }
        Ok(())
    }
}

impl<P: Protocol, R: AsyncRead + Unpin> Future for Reading<P, R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let gone = match this.shared.is_closed() {
            true => Some(String::new()),
            false => {
                this.read(context).err().or_else(|| this.write(context).err().map(|error| error.to_string()))
            }
        };
        match gone {
            Some(why) => {
                this.shared.close(&why);
                Poll::Ready(())
            }
            None => Poll::Pending,
        }
    }
}

impl<P: Protocol, R> Drop for Reading<P, R> {
    fn drop(&mut self) {
        self.shared.close("its runtime ended");
    }
}
