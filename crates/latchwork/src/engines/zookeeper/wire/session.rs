//! The handle of a session, and the thread that its sessions live on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::connection::Place;
use super::driver::Driver;
use super::request::{Reply, Request};
use crate::clock::{Clock, Moment};
use crate::net::connection_error::ConnectionError;
use crate::net::own_thread::OwnThread;

/// A session with the server or ensemble. It outlives its connections, and ends when its last handle is dropped.
pub(in super::super) struct Session {
    mail: mpsc::UnboundedSender<Vec<Call>>,
    state: watch::Receiver<State>,
    facts: Arc<Facts>,
}

/// How a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum State {
    /// Every server is tried, once.
    Connecting,
    Connected,
    /// None could be reached; they are tried again later, or when somebody asks.
    Unreachable {
        round: u64,
        why: ConnectionError,
    },
    /// The server ended it, and removes what belonged to it.
    Expired,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum WireError {
    /// Nothing was sent.
    NotSent(ConnectionError),
    /// It was sent, and the connection broke.
    Unanswered(ConnectionError),
    /// The server did nothing, and says why.
    Refused(i32),
}

impl WireError {
    pub(in super::super) const NO_NODE: Self = Self::Refused(-101);
    pub(in super::super) const NO_AUTH: Self = Self::Refused(-102);
    pub(in super::super) const BAD_VERSION: Self = Self::Refused(-103);
    pub(in super::super) const EPHEMERAL_PARENT: Self = Self::Refused(-108);
    pub(in super::super) const NODE_EXISTS: Self = Self::Refused(-110);
}

/// What became of a node that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Event {
    Changed,
    Deleted,
    /// The connection broke meanwhile, and there is a new one: look again.
    Unsure,
}

/// Receives the next event of a node.
pub(in super::super) type Watcher = Box<dyn Listen>;

/// The behaviour of a [`Watcher`].
pub(in super::super) trait Listen: Send {
    /// Called once, on the session's thread.
    fn tell(self: Box<Self>, event: Event);

    /// Whether the event is still of use to anyone. The server reports only the next change, which may never
    /// come. Until then unwanted watchers would pile up.
    fn is_wanted(&self) -> bool {
        true
    }
}

impl<F: FnOnce(Event) + Send> Listen for F {
    fn tell(self: Box<Self>, event: Event) {
        self(event);
    }
}

/// One request under way.
pub(super) struct Call {
    pub(super) request: Request,
    pub(super) watcher: Option<Watcher>,
    pub(super) answer: oneshot::Sender<Answer>,
}

pub(in super::super) type Answer = Result<Reply, WireError>;

/// What is known of a session on every thread.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) id: AtomicI64,
    pub(super) timeout_millis: AtomicU64,
    /// When the newest request that the leader answered was sent, in microseconds.
    pub(super) acknowledged: AtomicU64,
    /// Rung by whoever cannot wait for the next attempt to connect.
    pub(super) nudge: Notify,
}

impl Session {
    /// Begins a session on `thread`. It is usable once [`Session::ready`] says so; `ended` is called with its id if the
    /// server ends it.
    pub(in super::super) fn begin(
        thread: &OwnThread,
        place: Arc<Place>,
        ended: impl Fn(i64) + Send + 'static,
    ) -> Self {
        let (mail, letters) = mpsc::unbounded_channel();
        let (says, state) = watch::channel(State::Connecting);
        let facts = Arc::<Facts>::default();
        let driver = Driver::new(place, facts.clone(), says, Box::new(ended));
        thread.spawn(driver.run(letters));
        Self { mail, state, facts }
    }

    /// Its number; zero before it was opened.
    pub(in super::super) fn id(&self) -> i64 {
        self.facts.id.load(Ordering::Acquire)
    }

    /// How long it lives without a sign of life, as agreed with the server.
    pub(in super::super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.facts.timeout_millis.load(Ordering::Acquire))
    }

    /// When the newest request that the leader answered was sent.
    pub(in super::super) fn acknowledged(&self) -> Moment {
        Moment::from_micros(self.facts.acknowledged.load(Ordering::Acquire))
    }

    pub(in super::super) fn is_over(&self) -> bool {
        *self.state.borrow() == State::Expired
    }

    pub(in super::super) fn is_connected(&self) -> bool {
        *self.state.borrow() == State::Connected
    }

    /// Waits until it is connected or over; an attempt that fails is told.
    pub(in super::super) async fn ready(&self) -> State {
        let mut state = self.state.clone();
        let mut failed = None;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                State::Connected | State::Expired => return now,
                State::Connecting => {}
                State::Unreachable { round, .. } if failed.is_some_and(|failed| failed != round) => {
                    return now;
                }
                State::Unreachable { round, .. } => {
                    // The next attempt is this caller's: this one may have begun long before.
                    failed = Some(round);
                    self.facts.nudge.notify_one();
                }
            }
            if state.changed().await.is_err() {
                return State::Expired;
            }
        }
    }

    /// Sends requests in one write. The answers come in their order.
    pub(in super::super) async fn ask<const N: usize>(
        &self,
        requests: [(Request, Option<Watcher>); N],
    ) -> [Answer; N] {
        let answers = self.ask_all(requests.into()).await;
        answers.try_into().unwrap_or_else(|_| unreachable!("there is one answer for each"))
    }

    /// The same for any number.
    pub(in super::super) async fn ask_all(&self, requests: Vec<(Request, Option<Watcher>)>) -> Vec<Answer> {
        self.post(requests).await
    }

    /// The same: sent when this returns, and not when the answers are waited for.
    pub(in super::super) fn post(
        &self,
        requests: Vec<(Request, Option<Watcher>)>,
    ) -> impl Future<Output = Vec<Answer>> + Send + use<> {
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        for (request, watcher) in requests {
            let (answer, receiver) = oneshot::channel();
            calls.push(Call { request, watcher, answer });
            answers.push(receiver);
        }
        let _ = self.mail.send(calls);
        async {
            let mut heard = Vec::with_capacity(answers.len());
            for answer in answers {
                let answer = answer.await;
                heard.push(answer.unwrap_or_else(|_| Err(WireError::Unanswered("the session ended".into()))));
            }
            heard
        }
    }

    /// Gives a sign of life, and waits until the leader has answered. False if it does not.
    pub(in super::super) async fn beat(&self) -> bool {
        let [answer] = self.ask([(Request::sync(), None)]).await;
        answer.is_ok()
    }
}

impl Facts {
    /// A request sent then was answered by the leader.
    pub(super) fn was_acknowledged(&self, sent: Moment) {
        self.acknowledged.fetch_max(sent.as_micros(), Ordering::AcqRel);
    }

    pub(super) fn now() -> Moment {
        Clock::boottime().now()
    }
}
