//! The task of one session: keeps it alive, sends what it is asked to, and hands out what comes back.
#![allow(clippy::disallowed_methods, reason = "heartbeats keep the session alive")]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};

use super::connection::{AUTH_XID, Connection, NoConnection, Place, Stream, Ticket};
use super::jute::{In, Out, next_message};
use super::request::Request;
use super::session::{Answer, Call, Event, Facts, State, Watcher, WireError};
use crate::clock::{Clock, Moment};

const EVENT_XID: i32 = -1;
const CLOSE: i32 = -11;
const SESSION_EXPIRED: i32 = -112;
const SESSION_MOVED: i32 = -118;
/// The first pause between two rounds of attempts to connect; doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a session that is no longer wanted may take to say so.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

const SILENT: &str = "the server is silent, or cut off from its leader";

type Letters = mpsc::UnboundedReceiver<Vec<Call>>;

/// Why a connection is no longer served.
enum Break {
    Lost(Arc<str>),
    Expired,
    /// Nobody wants the session any more.
    Unwanted,
}

/// What was sent and not answered.
struct Pending {
    request: Request,
    watcher: Option<Watcher>,
    answer: oneshot::Sender<Answer>,
    sent: Moment,
}

pub(super) struct Driver {
    place: Arc<Place>,
    facts: Arc<Facts>,
    state: watch::Sender<State>,
    ended: Box<dyn Fn(i64) + Send>,
    ticket: Ticket,
    /// The server that the last connection went to.
    server: Option<usize>,
    timeout: Duration,
    xid: i32,
    pending: HashMap<i32, Pending>,
    watchers: HashMap<String, Vec<Watcher>>,
    /// When something was last sent that the leader answers.
    last_sign: Moment,
    /// When such an answer last came.
    last_confirmed: Moment,
}

impl Driver {
    pub(super) fn new(
        place: Arc<Place>,
        facts: Arc<Facts>,
        state: watch::Sender<State>,
        ended: Box<dyn Fn(i64) + Send>,
    ) -> Self {
        let (timeout, now) = (place.timeout, Facts::now());
        Self {
            place,
            facts,
            state,
            ended,
            ticket: Ticket::default(),
            server: None,
            timeout,
            xid: 0,
            pending: HashMap::new(),
            watchers: HashMap::new(),
            last_sign: now,
            last_confirmed: now,
        }
    }

    pub(super) async fn run(mut self, mut letters: Letters) {
        loop {
            let connection = match self.connect(&mut letters).await {
                ControlFlow::Continue(connection) => connection,
                ControlFlow::Break(Break::Expired) => return self.end(),
                ControlFlow::Break(_) => return,
            };
            match self.serve(connection, &mut letters).await {
                Break::Lost(why) => {
                    self.state.send_replace(State::Connecting);
                    self.fail_pending(&why);
                }
                Break::Expired => return self.end(),
                Break::Unwanted => return,
            }
        }
    }

    /// Tries until there is a connection. Whoever asks for something meanwhile is told that it was not sent.
    async fn connect(&mut self, letters: &mut Letters) -> ControlFlow<Break, Connection> {
        let (mut round, mut pause) = (0, FIRST_PAUSE);
        loop {
            if self.is_stale() {
                return ControlFlow::Break(Break::Expired);
            }
            self.state.send_replace(State::Connecting);
            let (place, ticket, last) = (self.place.clone(), self.ticket.clone(), self.server);
            let attempt = async move { place.connect(&ticket, last).await };
            let why = match unless_unwanted(attempt, letters, "there is no connection yet").await? {
                Ok(connection) => return ControlFlow::Continue(connection),
                Err(NoConnection::Expired) => return ControlFlow::Break(Break::Expired),
                Err(NoConnection::Unreachable(why)) => Arc::<str>::from(why),
            };
            round += 1;
            self.state.send_replace(State::Unreachable { round, why: why.clone() });
            let (facts, until) = (self.facts.clone(), Facts::now().after(pause));
            let nap = async move {
                tokio::select! {
                    () = Clock::boottime().sleep_until(until) => {}
                    () = facts.nudge.notified() => {}
                }
            };
            unless_unwanted(nap, letters, &why).await?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether to go on with this session is no longer worth an attempt. Its locks were lost long ago; and a server whose data
    /// were replaced would never say so, but send a session away that has seen more than itself.
    fn is_stale(&self) -> bool {
        let acknowledged = Moment::from_micros(self.facts.acknowledged.load(Ordering::Acquire));
        self.ticket.id != 0 && Facts::now().since(acknowledged) > self.timeout * 2
    }

    async fn serve(&mut self, connection: Connection, letters: &mut Letters) -> Break {
        let Connection { server, stream, ticket, timeout, sent, mut received } = connection;
        (self.server, self.ticket, self.timeout) = (Some(server), ticket, timeout);
        self.facts.timeout_millis.store(timeout.as_millis() as u64, Ordering::Release);
        self.facts.id.store(self.ticket.id, Ordering::Release);
        self.facts.was_acknowledged(sent);
        (self.last_sign, self.last_confirmed) = (sent, Facts::now());
        self.state.send_replace(State::Connected);
        // What was watched through the last connection may have changed since.
        for watcher in std::mem::take(&mut self.watchers).into_values().flatten() {
            watcher.tell(Event::Unsure);
        }
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut alarm = Box::pin(Clock::boottime().sleep_until(self.next_look()));
        loop {
            if let ControlFlow::Break(why) = self.hear(&mut received) {
                return why;
            }
            // While messages arrive without end, no other branch runs. This limit is later than the alarm:
            // after a pause of this process, the leader's reply may come after the bytes that were just read.
            if Facts::now().since(self.last_confirmed) > self.timeout {
                return Break::Lost(SILENT.into());
            }
            received.reserve(4096);
            let served = tokio::select! {
                biased;
                read = reader.read_buf(&mut received) => match read {
                    Ok(0) => lost("the server closed the connection"),
                    Ok(_) => ControlFlow::Continue(()),
                    Err(error) => lost(&error.to_string()),
                },
                letter = letters.recv() => match letter {
                    Some(letter) => self.send(letter, letters, &mut writer).await,
                    None => {
                        self.close(&mut writer, &mut reader).await;
                        ControlFlow::Break(Break::Unwanted)
                    }
                },
                () = alarm.as_mut() => {
                    let looked_after = self.look_after(&mut writer).await;
                    alarm.set(Clock::boottime().sleep_until(self.next_look()));
                    looked_after
                }
            };
            if let ControlFlow::Break(why) = served {
                return why;
            }
        }
    }

    /// Sends a letter, and what else lies in the box, in one write.
    async fn send(
        &mut self,
        first: Vec<Call>,
        letters: &mut Letters,
        writer: &mut WriteHalf<Box<dyn Stream>>,
    ) -> ControlFlow<Break> {
        let (sent, mut bytes) = (Facts::now(), Vec::with_capacity(512));
        let more = std::iter::from_fn(|| letters.try_recv().ok());
        for call in std::iter::once(first).chain(more).flatten() {
            self.write(call, sent, &mut bytes);
        }
        self.put(&bytes, writer).await
    }

    fn write(&mut self, call: Call, sent: Moment, bytes: &mut Vec<u8>) {
        let Call { request, watcher, answer } = call;
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        request.write(self.xid, self.place.digest.is_some(), bytes);
        if request.is_answered_by_the_leader() {
            self.last_sign = sent;
        }
        self.pending.insert(self.xid, Pending { request, watcher, answer, sent });
    }

    async fn put(&mut self, bytes: &[u8], writer: &mut WriteHalf<Box<dyn Stream>>) -> ControlFlow<Break> {
        let writing = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        match tokio::time::timeout(self.timeout / 2, writing).await {
            Ok(Ok(())) => ControlFlow::Continue(()),
            Ok(Err(error)) => lost(&error.to_string()),
            Err(_) => lost("the server takes nothing in"),
        }
    }

    /// When the next sign of life is due. The leader learns of it half a tick late at the worst, and of none after a cut: with an
    /// eighth between two, a session of three ticks or more outlives the two thirds that count as certain.
    fn next_sign(&self) -> Moment {
        self.last_sign.after(self.timeout / 8)
    }

    /// When a leader that has not answered since is taken for unreachable: a sixth of the session is left for another server.
    fn silence(&self) -> Moment {
        self.last_confirmed.after(self.timeout / 2)
    }

    fn next_look(&self) -> Moment {
        self.next_sign().min(self.silence())
    }

    /// A sign of life when nothing else was sent for a while, and an end to a connection behind which nobody decides: there
    /// must be time to try another server before the session ends.
    async fn look_after(&mut self, writer: &mut WriteHalf<Box<dyn Stream>>) -> ControlFlow<Break> {
        let now = Facts::now();
        if now >= self.silence() {
            return lost(SILENT);
        }
        if now < self.next_sign() {
            return ControlFlow::Continue(());
        }
        let (mut bytes, (answer, _)) = (Vec::new(), oneshot::channel());
        let sign = Call { request: Request::sync(), watcher: None, answer };
        self.write(sign, now, &mut bytes);
        self.put(&bytes, writer).await
    }

    /// Takes in every whole message.
    fn hear(&mut self, received: &mut Vec<u8>) -> ControlFlow<Break> {
        loop {
            let message = match next_message(received) {
                Ok(Some(message)) => message,
                Ok(None) => return ControlFlow::Continue(()),
                Err(why) => return lost(&why),
            };
            match self.take_in(&message) {
                Some(ControlFlow::Continue(())) => {}
                Some(broken) => return broken,
                None => return lost("the server's answer cannot be read"),
            }
        }
    }

    fn take_in(&mut self, message: &[u8]) -> Option<ControlFlow<Break>> {
        let mut message = In(message);
        let (xid, zxid, code) = (message.int()?, message.long()?, message.int()?);
        match code {
            SESSION_EXPIRED => return Some(ControlFlow::Break(Break::Expired)),
            SESSION_MOVED => return Some(lost("the session has moved to another connection")),
            _ => {}
        }
        match xid {
            EVENT_XID => {
                let (kind, _state, path) = (message.int()?, message.int()?, message.text()?);
                let event = if kind == 2 { Event::Deleted } else { Event::Changed };
                for watcher in self.watchers.remove(&path).into_iter().flatten() {
                    watcher.tell(event);
                }
            }
            AUTH_XID if code != 0 => return Some(lost("the server refuses the user")),
            AUTH_XID => {}
            _ => {
                let Pending { request, watcher, answer, sent } = self.pending.remove(&xid)?;
                self.ticket.zxid = self.ticket.zxid.max(zxid);
                if request.is_answered_by_the_leader() {
                    self.facts.was_acknowledged(sent);
                    self.last_confirmed = Facts::now();
                }
                let reply = match code {
                    0 => Ok(request.reply(&mut message)?),
                    code => Err(WireError::Refused(code)),
                };
                if let (Ok(_), Some(watcher), Request::Read { path, .. } | Request::ReadCell { path, .. }) =
                    (&reply, watcher, request)
                {
                    let watchers = self.watchers.entry(path).or_default();
                    if watchers.len() == watchers.capacity() {
                        watchers.retain(|watcher| watcher.is_wanted());
                    }
                    watchers.push(watcher);
                }
                let _ = answer.send(reply);
            }
        }
        Some(ControlFlow::Continue(()))
    }

    fn fail_pending(&mut self, why: &Arc<str>) {
        for (_, pending) in self.pending.drain() {
            let _ = pending.answer.send(Err(WireError::Unanswered(why.clone())));
        }
    }

    /// The server ended the session. Nobody hears of it before the claims of the session are known to be lost.
    fn end(mut self) {
        (self.ended)(self.ticket.id);
        self.state.send_replace(State::Expired);
        self.fail_pending(&"the session ended".into());
        for watcher in std::mem::take(&mut self.watchers).into_values().flatten() {
            watcher.tell(Event::Unsure);
        }
    }

    /// Ends the session, so that the server removes at once what belonged to it, and waits for its word.
    async fn close(
        &mut self,
        writer: &mut WriteHalf<Box<dyn Stream>>,
        reader: &mut tokio::io::ReadHalf<Box<dyn Stream>>,
    ) {
        let mut bytes = Vec::new();
        let mut out = Out::begin(&mut bytes);
        out.int(self.xid.checked_add(1).unwrap_or(1)).int(CLOSE);
        out.end();
        // All further messages are discarded.
        let mut nobody = tokio::io::sink();
        let closing = async {
            writer.write_all(&bytes).await?;
            writer.flush().await?;
            tokio::io::copy(reader, &mut nobody).await
        };
        let _ = tokio::time::timeout(CLOSE_LIMIT, closing).await;
    }
}

fn lost(why: &str) -> ControlFlow<Break> {
    ControlFlow::Break(Break::Lost(why.into()))
}

/// Does `work`; meanwhile every request is answered: it was not sent. Breaks when nobody wants the session any more.
async fn unless_unwanted<T: Send>(
    work: impl Future<Output = T> + Send,
    letters: &mut Letters,
    why: &str,
) -> ControlFlow<Break, T> {
    let mut work: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(work);
    loop {
        tokio::select! {
            done = work.as_mut() => return ControlFlow::Continue(done),
            letter = letters.recv() => match letter {
                None => return ControlFlow::Break(Break::Unwanted),
                Some(calls) => {
                    let why = Arc::<str>::from(why);
                    calls.into_iter().for_each(|call| drop(call.answer.send(Err(WireError::NotSent(why.clone())))));
                }
            },
        }
    }
}
