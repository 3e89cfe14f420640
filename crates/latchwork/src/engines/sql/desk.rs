//! What was asked of a connection and is not answered yet.
//!
//! Who asks while nothing is under way writes for itself, so that its request changes no task; all else is left to the driver.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::sync::oneshot;

use crate::poison::lock_ignoring_poison;

/// How a server talks. It answers in the order of the questions, each with one message or several.
pub(in crate::engines) trait Dialect: Sized + Send + 'static {
    /// An answer that is arriving.
    type Arriving: Send;
    type Reply: Send;
    /// What is said instead; also of the connection, if it ends.
    type WireError: Clone + Send;

    /// What a client says that goes: without it, the server counts it as one that was lost.
    const FAREWELL: &'static [u8];

    /// How long the first message is; `None` if it is not all there yet.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    fn length(arrived: &[u8]) -> Result<Option<usize>, Self::WireError>;

    /// Takes a message of an answer. `Some`: it was the last.
    ///
    /// # Errors
    /// The connection cannot be used any more. That the server refused is an answer.
    fn take(
        &mut self,
        arriving: &mut Self::Arriving,
        message: &[u8],
    ) -> Result<Option<Answering<Self>>, Self::WireError>;

    /// Takes a message that nobody asked for.
    ///
    /// # Errors
    /// If it is why the connection ends.
    fn hear(&mut self, message: &[u8]) -> Result<(), Self::WireError>;

    /// What those are told whose question is too long to be sent.
    fn too_long() -> Self::WireError;

    /// What those are told who get no answer any more, if the server said why. What it refused is no answer to those who asked after
    /// it: of theirs nobody knows.
    fn ended(why: Option<Self::WireError>) -> Self::WireError;
}

/// Where questions are left, and answers fetched.
pub(in crate::engines) struct Desk<D: Dialect>(Mutex<State<D>>);

struct State<D: Dialect> {
    dialect: D,
    open: VecDeque<Open<D>>,
    unsent: Vec<u8>,
    is_flushed: bool,
    /// The driver's socket once more, for those who write for themselves; none if what is written must be encrypted.
    socket: Option<TcpStream>,
    driver: Option<Waker>,
    /// Nobody asks any more.
    is_left: bool,
    is_over: bool,
    /// Why, if the server said so.
    why: Option<D::WireError>,
}

/// What a question comes to.
pub(in crate::engines) type Answering<D> = Result<<D as Dialect>::Reply, <D as Dialect>::WireError>;

/// The answer to one question. An error: it will not come.
pub(in crate::engines) type Answered<D> = oneshot::Receiver<Answering<D>>;

/// Who asked, and what came of it.
type Done<D> = (oneshot::Sender<Answering<D>>, Answering<D>);

/// A question that is on its way, and who asked.
struct Open<D: Dialect> {
    arriving: D::Arriving,
    /// Whether the connection cannot be used any more if it is refused.
    is_vital: bool,
    answer: oneshot::Sender<Answering<D>>,
}

impl<D: Dialect> Desk<D> {
    pub(in crate::engines) fn new(dialect: D, socket: Option<TcpStream>) -> Self {
        Self(Mutex::new(State {
            dialect,
            open: VecDeque::new(),
            unsent: Vec::new(),
            is_flushed: true,
            socket,
            driver: None,
            is_left: false,
            is_over: false,
            why: None,
        }))
    }

    /// Sends a question, which `put` writes. It is carried out whether its answer is waited for or not; unless the connection is
    /// over, and nobody answers. `None` if `put` says that it is too long, and it was not sent.
    pub(in crate::engines) fn ask(
        &self,
        arriving: D::Arriving,
        is_vital: bool,
        put: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Option<Answered<D>> {
        let (answer, answered) = oneshot::channel();
        let mut state = lock_ignoring_poison(&self.0);
        if state.is_over {
            return Some(answered);
        }
        let is_idle = state.open.is_empty() && state.unsent.is_empty();
        if !put(&mut state.unsent) {
            return None;
        }
        state.open.push_back(Open { arriving, is_vital, answer });
        if is_idle {
            state.write_directly();
        }
        state.hand_over();
        Some(answered)
    }

    /// Waits for an answer to a question that was sent, if it was.
    pub(in crate::engines) async fn answer(self: Arc<Self>, answered: Option<Answered<D>>) -> Answering<D> {
        match answered {
            Some(answered) => {
                answered.await.unwrap_or_else(|_| Err(D::ended(lock_ignoring_poison(&self.0).why.clone())))
            }
            None => Err(D::too_long()),
        }
    }

    /// Nobody asks any more, but what was asked is carried out.
    pub(in crate::engines) fn leave(&self) {
        let mut state = lock_ignoring_poison(&self.0);
        state.is_left = true;
        state.unsent.extend_from_slice(D::FAREWELL);
        state.hand_over();
    }

    /// Nobody trusts the connection any more: whoever waits for an answer hears that it ended.
    pub(in crate::engines) fn end(&self) {
        let mut state = lock_ignoring_poison(&self.0);
        state.is_over = true;
        state.socket = None;
        let (unanswered, driver) = (std::mem::take(&mut state.open), state.driver.take());
        drop(state);
        drop(unanswered);
        driver.into_iter().for_each(Waker::wake);
    }

    pub(in crate::engines) fn is_over(&self) -> bool {
        lock_ignoring_poison(&self.0).is_over
    }

    /// The server said why it ends.
    pub(super) fn because(&self, wire_error: D::WireError) {
        lock_ignoring_poison(&self.0).why = Some(wire_error);
    }

    /// Writes what is left to the driver. True when it is over, also because there is nothing left to do.
    pub(super) fn poll_write(
        &self,
        mut stream: Pin<&mut (impl AsyncWrite + ?Sized)>,
        context: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut state = lock_ignoring_poison(&self.0);
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.driver = Some(context.waker().clone());
        }
        while !state.unsent.is_empty() {
            state.is_flushed = false;
            match stream.as_mut().poll_write(context, &state.unsent) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => drop(state.unsent.drain(..written?)),
                Poll::Pending => return Ok(state.is_over),
            }
        }
        if !state.is_flushed
            && let Poll::Ready(flushed) = stream.poll_flush(context)
        {
            flushed?;
            state.is_flushed = true;
        }
        Ok(state.is_over || state.is_left && state.is_flushed && state.open.is_empty())
    }

    /// Hands out what has arrived in full. How much that was.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    pub(super) fn deal_out(&self, arrived: &[u8]) -> Result<usize, D::WireError> {
        let mut read = 0;
        loop {
            // With the mutex free again: who is answered may ask the next at once.
            let answered = lock_ignoring_poison(&self.0).take_answer(arrived, &mut read)?;
            let Some((answer, reply)) = answered else { return Ok(read) };
            let _ = answer.send(reply);
        }
    }
}

impl<D: Dialect> State<D> {
    /// What does not fit, and what fails, is the driver's.
    fn write_directly(&mut self) {
        let written = self.socket.as_mut().and_then(|socket| socket.write(&self.unsent).ok());
        self.unsent.drain(..written.unwrap_or_default());
    }

    fn hand_over(&mut self) {
        if !self.unsent.is_empty() {
            self.driver.iter().for_each(Waker::wake_by_ref);
        }
    }

    /// The next answer that has arrived in full.
    fn take_answer(&mut self, arrived: &[u8], read: &mut usize) -> Result<Option<Done<D>>, D::WireError> {
        // Those who asked were told that it ended, and what arrives for them now says nothing of why.
        while !self.is_over
            && let Some(length) = D::length(&arrived[*read..])?
        {
            let message = &arrived[*read..*read + length];
            *read += length;
            let Some(first) = self.open.front_mut() else {
                self.dialect.hear(message)?;
                continue;
            };
            if let Some(reply) = self.dialect.take(&mut first.arriving, message)?
                && let Some(done) = self.open.pop_front()
            {
                return match reply {
                    Err(wire_error) if done.is_vital => Err(wire_error),
                    reply => Ok(Some((done.answer, reply))),
                };
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    /// Messages are lines. One with a mark is a refusal, and `bye` is why it ends.
    struct Lines;

    impl Dialect for Lines {
        type Arriving = ();
        type Reply = String;
        type WireError = String;

        const FAREWELL: &'static [u8] = b"bye\n";

        fn length(arrived: &[u8]) -> Result<Option<usize>, String> {
            Ok(arrived.iter().position(|byte| *byte == b'\n').map(|end| end + 1))
        }

        fn take(&mut self, (): &mut (), message: &[u8]) -> Result<Option<Answering<Self>>, String> {
            let line = String::from_utf8_lossy(message).trim_end().to_owned();
            Ok(Some(if line.starts_with('!') { Err(line) } else { Ok(line) }))
        }

        fn hear(&mut self, message: &[u8]) -> Result<(), String> {
            if message == b"bye\n" { Err("it said bye".to_owned()) } else { Ok(()) }
        }

        fn too_long() -> String {
            "too long".to_owned()
        }

        fn ended(why: Option<String>) -> String {
            format!("ended: {}", why.unwrap_or_default())
        }
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        near.set_nonblocking(true).expect("a socket");
        (near, listener.accept().expect("connected").0)
    }

    fn ask(desk: &Desk<Lines>, line: &str) -> Answered<Lines> {
        ask_for(desk, line, false)
    }

    fn ask_for(desk: &Desk<Lines>, line: &str, is_vital: bool) -> Answered<Lines> {
        let put = |out: &mut Vec<u8>| {
            out.extend_from_slice(line.as_bytes());
            true
        };
        desk.ask((), is_vital, put).expect("it can be sent")
    }

    #[test]
    fn who_asks_alone_writes_at_once_and_what_follows_is_the_drivers() {
        let (near, mut far) = pair();
        let desk = Desk::new(Lines, Some(near));
        let mut first = ask(&desk, "a\n");
        let mut sent = [0; 2];
        far.read_exact(&mut sent).expect("on its way");
        assert_eq!(&sent, b"a\n");
        let mut second = ask(&desk, "b\n");
        let (mut written, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
        assert!(!desk.poll_write(Pin::new(&mut written), &mut context).expect("written"));
        assert_eq!(written, b"b\n");
        assert_eq!(desk.deal_out(b"1\n2"), Ok(2));
        assert_eq!(first.try_recv().expect("answered"), Ok("1".to_owned()));
        assert!(second.try_recv().is_err(), "the rest is not there yet");
        assert_eq!(desk.deal_out(b"2\n"), Ok(2));
        assert!(second.try_recv().expect("answered").is_ok());
        desk.leave();
        assert!(
            desk.poll_write(Pin::new(&mut written), &mut context).expect("written"),
            "nothing is left to do"
        );
        assert_eq!(written, b"b\nbye\n");
    }

    /// Carried out by then, and never answered.
    #[tokio::test]
    async fn what_follows_a_command_that_had_to_succeed_is_not_told_that_it_was_refused() {
        let desk = Arc::new(Desk::new(Lines, None));
        drop(ask_for(&desk, "a\n", true));
        let behind = ask(&desk, "b\n");
        let why = desk.deal_out(b"!no\n").expect_err("it cannot go on");
        desk.because(why);
        desk.end();
        assert_eq!(desk.answer(Some(behind)).await, Err("ended: !no".to_owned()));
    }

    /// Taken for a refusal, it would tell the others that nothing was done.
    #[tokio::test]
    async fn an_answer_that_comes_after_the_end_is_no_reason_for_it() {
        let desk = Arc::new(Desk::new(Lines, None));
        let asked = ask(&desk, "a\n");
        desk.end();
        assert!(desk.deal_out(b"!no\n").is_ok());
        assert_eq!(desk.clone().answer(Some(asked)).await, Err("ended: ".to_owned()));
        let late = ask(&desk, "b\n");
        assert!(desk.clone().answer(Some(late)).await.is_err(), "nobody answers any more");
    }

    #[tokio::test]
    async fn what_is_too_long_is_not_sent() {
        let desk = Arc::new(Desk::new(Lines, None));
        let asked = desk.ask((), false, |_| false);
        assert_eq!(desk.clone().answer(asked).await, Err("too long".to_owned()));
        assert!(desk.deal_out(b"1\n").is_ok(), "nobody waits for an answer");
    }

    #[test]
    fn what_nobody_asked_for_is_heard_and_may_be_why_it_ends() {
        let desk = Arc::new(Desk::new(Lines, None));
        assert_eq!(desk.deal_out(b"news\n"), Ok(5));
        assert_eq!(desk.deal_out(b"news\nbye\n"), Err("it said bye".to_owned()));
    }
}
