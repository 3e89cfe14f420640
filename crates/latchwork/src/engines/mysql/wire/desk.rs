//! What was asked of a connection and is not answered yet.
//!
//! Who asks while nothing is under way writes for itself, so that its request changes no task; all else is left to the driver.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::sync::oneshot;

use super::Trouble;
use super::reply::{Arriving, Column, Ends, Next, Reply, refusal};
use super::stream::{first_packet, put_packet};
use crate::locked::locked;

/// A client that goes: without it, the server counts it as one that was lost.
const QUIT: u8 = 0x01;

/// Where questions are left, and answers fetched.
pub(super) struct Desk(Mutex<State>);

#[derive(Default)]
struct State {
    open: VecDeque<Open>,
    /// Of the answer that is arriving.
    columns: Vec<Column>,
    unsent: Vec<u8>,
    is_flushed: bool,
    /// The driver's socket once more, for those who write for themselves; none if what is written must be encrypted.
    socket: Option<TcpStream>,
    ends: Ends,
    driver: Option<Waker>,
    /// Nobody asks any more.
    is_left: bool,
    is_over: bool,
    /// Why, if the server said so.
    why: Option<Trouble>,
}

type Answer = Result<Reply, Trouble>;

/// The answer to one question. An error: it will not come.
pub(super) type Answered = oneshot::Receiver<Answer>;

/// A question that is on its way, and who asked.
struct Open {
    arriving: Arriving,
    /// Whether the connection cannot be used any more if it is refused.
    is_vital: bool,
    answer: oneshot::Sender<Answer>,
}

impl Desk {
    pub(super) fn new(socket: Option<TcpStream>, ends: Ends) -> Self {
        Self(Mutex::new(State { socket, ends, ..State::default() }))
    }

    /// Sends a question, which `put` writes. It is carried out whether its answer is waited for or not; unless the connection is
    /// over, and nobody answers. `None` if it is too long, and was not sent.
    pub(super) fn ask(&self, next: Next, is_vital: bool, put: impl FnOnce(&mut Vec<u8>)) -> Option<Answered> {
        let (answer, answered) = oneshot::channel();
        let mut state = locked(&self.0);
        if state.is_over {
            return Some(answered);
        }
        let is_idle = state.open.is_empty() && state.unsent.is_empty();
        if !put_packet(&mut state.unsent, 0, put) {
            return None;
        }
        let arriving = Arriving::new(next, state.ends);
        state.open.push_back(Open { arriving, is_vital, answer });
        if is_idle {
            state.write_directly();
        }
        state.hand_over();
        Some(answered)
    }

    /// Nobody asks any more, but what was asked is carried out.
    pub(super) fn leave(&self) {
        let mut state = locked(&self.0);
        state.is_left = true;
        put_packet(&mut state.unsent, 0, |packet| packet.push(QUIT));
        state.hand_over();
    }

    /// Nobody trusts the connection any more: whoever waits for an answer hears that it ended.
    pub(super) fn end(&self) {
        let mut state = locked(&self.0);
        state.is_over = true;
        state.socket = None;
        let (unanswered, driver) = (std::mem::take(&mut state.open), state.driver.take());
        drop(state);
        drop(unanswered);
        driver.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_over(&self) -> bool {
        locked(&self.0).is_over
    }

    /// What the server refused is no answer to those who asked after it: of theirs nobody knows.
    pub(super) fn because(&self, trouble: Trouble) {
        locked(&self.0).why = Some(match trouble {
            Trouble::Refused { words, .. } => Trouble::Ended(words),
            trouble => trouble,
        });
    }

    pub(super) fn why(&self) -> Trouble {
        let why = locked(&self.0).why.clone();
        why.unwrap_or_else(|| Trouble::Ended("the connection ended".to_owned()))
    }

    /// Writes what is left to the driver. True when it is over, also because there is nothing left to do.
    pub(super) fn poll_write(
        &self,
        mut stream: Pin<&mut (impl AsyncWrite + ?Sized)>,
        context: &mut Context<'_>,
    ) -> std::io::Result<bool> {
        let mut state = locked(&self.0);
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.driver = Some(context.waker().clone());
        }
        while !state.unsent.is_empty() {
            state.is_flushed = false;
            match stream.as_mut().poll_write(context, &state.unsent) {
                Poll::Ready(Ok(0)) => return Err(std::io::ErrorKind::WriteZero.into()),
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

    /// Hands out what has arrived in full.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    pub(super) fn deal_out(&self, arrived: &mut Vec<u8>) -> Result<(), Trouble> {
        let mut read = 0;
        loop {
            // With the mutex free again: who is answered may ask the next at once.
            let answered = locked(&self.0).take_answer(arrived, &mut read)?;
            let Some((answer, reply)) = answered else { break };
            let _ = answer.send(reply);
        }
        arrived.drain(..read);
        Ok(())
    }
}

impl State {
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
    fn take_answer(
        &mut self,
        arrived: &[u8],
        read: &mut usize,
    ) -> Result<Option<(oneshot::Sender<Answer>, Answer)>, Trouble> {
        // Those who asked were told that it ended, and what arrives for them now says nothing of why.
        while !self.is_over
            && let Some((packet, length)) = first_packet(&arrived[*read..])?
        {
            let Some(first) = self.open.front_mut() else {
                // What nobody asked for is why it ends.
                return Err(refusal(packet.get(1..).unwrap_or_default())?);
            };
            *read += length;
            if let Some(reply) = first.arriving.take(packet, &mut self.columns)?
                && let Some(done) = self.open.pop_front()
            {
                return match reply {
                    Err(trouble) if done.is_vital => Err(trouble),
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

    const DONE: &[u8] = &[7, 0, 0, 1, 0, 1, 5, 2, 0, 0, 0];

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        near.set_nonblocking(true).expect("a socket");
        (near, listener.accept().expect("connected").0)
    }

    fn ask(desk: &Desk, packet: &[u8]) -> Answered {
        ask_for(desk, packet, false)
    }

    fn ask_for(desk: &Desk, packet: &[u8], is_vital: bool) -> Answered {
        let put = |out: &mut Vec<u8>| out.extend_from_slice(packet);
        desk.ask(Next::First { is_binary: false }, is_vital, put).expect("short enough")
    }

    #[test]
    fn who_asks_alone_writes_at_once_and_what_follows_is_the_drivers() {
        let (near, mut far) = pair();
        let desk = Desk::new(Some(near), Ends::Told);
        let mut first = ask(&desk, b"a");
        let mut sent = [0; 5];
        far.read_exact(&mut sent).expect("on its way");
        assert_eq!(&sent, b"\x01\0\0\0a");
        let mut second = ask(&desk, b"b");
        let (mut written, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
        assert!(!desk.poll_write(Pin::new(&mut written), &mut context).expect("written"));
        assert_eq!(written, b"\x01\0\0\0b");
        let mut arrived = [DONE, &DONE[..4]].concat();
        desk.deal_out(&mut arrived).expect("an answer");
        assert_eq!(first.try_recv().expect("answered").expect("done").insert_id, 5);
        assert!(second.try_recv().is_err() && arrived == DONE[..4], "the rest is not there yet");
        arrived.extend(&DONE[4..]);
        desk.deal_out(&mut arrived).expect("an answer");
        assert!(second.try_recv().expect("answered").is_ok() && arrived.is_empty());
        desk.leave();
        assert!(
            desk.poll_write(Pin::new(&mut written), &mut context).expect("written"),
            "nothing is left to do"
        );
    }

    /// Carried out by then, and never answered.
    #[test]
    fn what_follows_a_command_that_had_to_succeed_is_not_told_that_it_was_refused() {
        let desk = Desk::new(None, Ends::Told);
        drop(ask_for(&desk, b"a", true));
        let mut behind = ask(&desk, b"b");
        let refusal = [&[9, 0, 0, 1, 0xff, 0x25, 0x05][..], b"#70100"].concat();
        let why = desk.deal_out(&mut refusal.clone()).expect_err("it cannot go on");
        desk.because(why);
        desk.end();
        assert!(behind.try_recv().is_err());
        assert!(matches!(desk.why(), Trouble::Ended(_)), "{:?}", desk.why());
    }

    /// Taken for a refusal, it would tell the others that nothing was done.
    #[test]
    fn an_answer_that_comes_after_the_end_is_no_reason_for_it() {
        let desk = Desk::new(None, Ends::Told);
        let mut asked = ask(&desk, b"a");
        desk.end();
        assert!(asked.try_recv().is_err());
        assert!(desk.deal_out(&mut DONE.to_vec()).is_ok());
        assert!(matches!(desk.why(), Trouble::Ended(_)));
        assert!(ask(&desk, b"b").try_recv().is_err(), "nobody answers any more");
    }
}
