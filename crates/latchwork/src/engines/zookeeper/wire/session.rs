//! The handle of a session.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::driver::{Condition, QueuedRequest, SessionDriver};
use super::request::{NodeRequest, Reply};
use super::session_config::SessionConfig;
use super::session_info::SessionInfo;
use super::watcher::Watcher;
use super::wire_error::WireError;
use crate::clock::Moment;
use crate::net::connection_error::ConnectionError;
use crate::net::own_thread::OwnThread;

/// A session with the server or ensemble. It outlives its connections, and ends when its last handle is
/// dropped.
pub(in super::super) struct Session {
    requests: mpsc::UnboundedSender<Vec<QueuedRequest>>,
    state: watch::Receiver<SessionState>,
    info: Arc<SessionInfo>,
}

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum SessionState {
    /// The client tries every server once.
    Connecting,
    Connected,
    /// No server could be reached. The client tries again after a pause, or when a caller needs the session.
    Unreachable {
        round: u64,
        why: ConnectionError,
    },
    /// The server ended the session, and removes its ephemeral nodes.
    Expired,
}

pub(in super::super) type ReplyResult = Result<Reply, WireError>;

impl Session {
    /// Begins a session on `thread`. [`Session::ready`] waits until it can be used. `on_expired` is called
    /// with the session's id if the server ends it.
    pub(in super::super) fn begin(
        thread: &OwnThread,
        config: Arc<SessionConfig>,
        on_expired: impl Fn(i64) + Send + 'static,
    ) -> Self {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (state_sender, state) = watch::channel(SessionState::Connecting);
        let info = Arc::<SessionInfo>::default();
        let driver = SessionDriver::new(config, info.clone(), state_sender, Box::new(on_expired));
        thread.spawn(driver.run(receiver));
        Self { requests, state, info }
    }

    /// The session id. 0 before the session was opened.
    pub(in super::super) fn id(&self) -> i64 {
        self.info.id()
    }

    /// The session timeout that the server agreed to.
    pub(in super::super) fn timeout(&self) -> Duration {
        self.info.timeout()
    }

    /// When the newest request that the leader answered was sent.
    pub(in super::super) fn acknowledged(&self) -> Moment {
        self.info.acknowledged()
    }

    pub(in super::super) fn is_expired(&self) -> bool {
        *self.state.borrow() == SessionState::Expired
    }

    pub(in super::super) fn is_connected(&self) -> bool {
        *self.state.borrow() == SessionState::Connected
    }

    /// Waits until the session is connected, has expired, or a round of attempts to connect has failed.
    pub(in super::super) async fn ready(&self) -> SessionState {
        let mut state = self.state.clone();
        let mut failed_round = None;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                SessionState::Connected | SessionState::Expired => return now,
                SessionState::Connecting => {}
                SessionState::Unreachable { round, .. }
                    if failed_round.is_some_and(|failed| failed != round) =>
                {
                    return now;
                }
                SessionState::Unreachable { round, .. } => {
                    // The next round is this caller's: this one may have begun long before.
                    failed_round = Some(round);
                    self.info.connect_now.notify_one();
                }
            }
            if state.changed().await.is_err() {
                return SessionState::Expired;
            }
        }
    }

    /// Sends requests in one write. The replies are in their order.
    pub(in super::super) async fn send<const N: usize>(
        &self,
        requests: [(NodeRequest, Option<Watcher>); N],
    ) -> [ReplyResult; N] {
        let replies = self.send_all(requests.into()).await;
        replies.try_into().unwrap_or_else(|_| unreachable!("each request has one result"))
    }

    /// Sends a request if `condition` holds when the session's thread sends it. Events that have arrived are
    /// handled before.
    ///
    /// # Errors
    /// [`WireError::NotSent`] if the condition does not hold.
    pub(in super::super) async fn send_if(
        &self,
        condition: impl Fn() -> bool + Send + 'static,
        request: NodeRequest,
    ) -> ReplyResult {
        let (reply, receiver) = oneshot::channel();
        let condition: Option<Condition> = Some(Box::new(condition));
        let _ = self.requests.send(vec![QueuedRequest { request, watcher: None, condition, reply }]);
        receiver.await.unwrap_or_else(|_| Err(WireError::Unanswered("the session ended".into())))
    }

    /// Like [`Session::send`], for any number of requests.
    pub(in super::super) async fn send_all(
        &self,
        requests: Vec<(NodeRequest, Option<Watcher>)>,
    ) -> Vec<ReplyResult> {
        self.start_send(requests).await
    }

    /// Like [`Session::send_all`]. The requests are sent by this call, and not when its future is polled.
    pub(in super::super) fn start_send(
        &self,
        requests: Vec<(NodeRequest, Option<Watcher>)>,
    ) -> impl Future<Output = Vec<ReplyResult>> + Send + use<> {
        let (mut batch, mut receivers) = (Vec::new(), Vec::new());
        for (request, watcher) in requests {
            let (reply, receiver) = oneshot::channel();
            batch.push(QueuedRequest { request, watcher, condition: None, reply });
            receivers.push(receiver);
        }
        let _ = self.requests.send(batch);
        async {
            let mut replies = Vec::with_capacity(receivers.len());
            for receiver in receivers {
                let reply = receiver.await;
                replies
                    .push(reply.unwrap_or_else(|_| Err(WireError::Unanswered("the session ended".into()))));
            }
            replies
        }
    }

    /// Sends a heartbeat, and waits for the leader's reply. False if there is none.
    pub(in super::super) async fn heartbeat(&self) -> bool {
        let [reply] = self.send([(NodeRequest::heartbeat(), None)]).await;
        reply.is_ok()
    }
}
