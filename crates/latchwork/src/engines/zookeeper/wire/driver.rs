//! The task of one session: keeps the session alive, sends its requests, and dispatches replies and events.
#![allow(clippy::disallowed_methods, reason = "heartbeats keep the session alive")]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};

use super::connection::{AUTH_XID, ConnectError, Connection, SessionCredentials};
use super::jute::{InputArchive, OutputArchive, next_message};
use super::request::NodeRequest;
use super::session::{ReplyResult, SessionState};
use super::session_config::SessionConfig;
use super::session_info::SessionInfo;
use super::watcher::{NodeEvent, Watcher};
use super::wire_error::WireError;
use crate::clock::{Clock, Moment};
use crate::net::byte_stream::ByteStream;
use crate::net::connection_error::ConnectionError;
use crate::net::deadline;

/// The xid of the event of a watch.
const EVENT_XID: i32 = -1;
/// The event type `NodeDeleted`.
const NODE_DELETED: i32 = 2;
/// The opcode `closeSession`.
const CLOSE_SESSION: i32 = -11;
/// Error codes of `KeeperException`.
const SESSION_EXPIRED: i32 = -112;
const SESSION_MOVED: i32 = -118;
/// The pause between two rounds of attempts to connect: the first, which doubles up to the longest.
const MIN_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

const SILENT: &str = "the server is silent, or cut off from its leader";

/// Requests of the session's handles. Each batch goes out in one write.
type RequestBatches = mpsc::UnboundedReceiver<Vec<QueuedRequest>>;

/// A request on its way to the driver.
pub(super) struct QueuedRequest {
    pub(super) request: NodeRequest,
    pub(super) watcher: Option<Watcher>,
    /// Checked just before the request is sent, after all events that have arrived. If it does not hold, the
    /// request fails as not sent.
    pub(super) condition: Option<Condition>,
    pub(super) reply: oneshot::Sender<ReplyResult>,
}

/// Whether a request should still be sent.
pub(super) type Condition = Box<dyn Fn() -> bool + Send>;

/// A request that was sent and not answered.
struct InFlightRequest {
    request: NodeRequest,
    watcher: Option<Watcher>,
    reply: oneshot::Sender<ReplyResult>,
    sent: Moment,
}

/// Why the driver stops serving a connection.
enum CloseReason {
    Lost(ConnectionError),
    Expired,
    /// All handles of the session are gone.
    Unused,
}

/// The task of one session.
pub(super) struct SessionDriver {
    config: Arc<SessionConfig>,
    info: Arc<SessionInfo>,
    state: watch::Sender<SessionState>,
    on_expired: Box<dyn Fn(i64) + Send>,
    credentials: SessionCredentials,
    /// The index of the server that the last connection went to.
    server: Option<usize>,
    timeout: Duration,
    xid: i32,
    in_flight: HashMap<i32, InFlightRequest>,
    watchers: HashMap<String, Vec<Watcher>>,
    /// When the newest request that the leader answers was sent.
    last_leader_request: Moment,
    /// When the newest reply of the leader arrived.
    last_leader_reply: Moment,
}

impl SessionDriver {
    pub(super) fn new(
        config: Arc<SessionConfig>,
        info: Arc<SessionInfo>,
        state: watch::Sender<SessionState>,
        on_expired: Box<dyn Fn(i64) + Send>,
    ) -> Self {
        let (timeout, now) = (config.timeout, SessionInfo::now());
        Self {
            config,
            info,
            state,
            on_expired,
            credentials: SessionCredentials::default(),
            server: None,
            timeout,
            xid: 0,
            in_flight: HashMap::new(),
            watchers: HashMap::new(),
            last_leader_request: now,
            last_leader_reply: now,
        }
    }

    pub(super) async fn run(mut self, mut batches: RequestBatches) {
        loop {
            let connection = match self.connect(&mut batches).await {
                ControlFlow::Continue(connection) => connection,
                ControlFlow::Break(CloseReason::Expired) => return self.expire(),
                ControlFlow::Break(_) => return,
            };
            match self.serve(connection, &mut batches).await {
                CloseReason::Lost(why) => {
                    self.state.send_replace(SessionState::Connecting);
                    self.fail_in_flight(&why);
                }
                CloseReason::Expired => return self.expire(),
                CloseReason::Unused => return,
            }
        }
    }

    /// Tries until there is a connection. Requests that come meanwhile fail as not sent.
    async fn connect(&mut self, batches: &mut RequestBatches) -> ControlFlow<CloseReason, Connection> {
        let (mut round, mut backoff) = (0, MIN_BACKOFF);
        loop {
            if self.is_stale() {
                return ControlFlow::Break(CloseReason::Expired);
            }
            self.state.send_replace(SessionState::Connecting);
            let (config, credentials, last) = (self.config.clone(), self.credentials.clone(), self.server);
            let attempt = async move { config.connect(&credentials, last).await };
            let why = match while_used(attempt, batches, &"there is no connection yet".into()).await? {
                Ok(connection) => return ControlFlow::Continue(connection),
                Err(ConnectError::Expired) => return ControlFlow::Break(CloseReason::Expired),
                Err(ConnectError::Unreachable(why)) => why,
            };
            round += 1;
            self.state.send_replace(SessionState::Unreachable { round, why: why.clone() });
            let (info, until) = (self.info.clone(), SessionInfo::now().after(backoff));
            let pause = async move {
                tokio::select! {
                    () = Clock::boottime().sleep_until(until) => {}
                    () = info.connect_now.notified() => {}
                }
            };
            while_used(pause, batches, &why).await?;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Whether the session is too old to be resumed. Its locks were lost long ago. A server whose data were
    /// replaced would never report the session as expired: it rejects a session that has seen newer
    /// transactions than the server has.
    fn is_stale(&self) -> bool {
        self.credentials.id != 0 && SessionInfo::now().since(self.info.acknowledged()) > self.timeout * 2
    }

    async fn serve(&mut self, connection: Connection, batches: &mut RequestBatches) -> CloseReason {
        let Connection { server, stream, credentials, timeout, sent, mut received } = connection;
        (self.server, self.credentials, self.timeout) = (Some(server), credentials, timeout);
        self.info.set_opened(self.credentials.id, timeout);
        self.info.acknowledge(sent);
        (self.last_leader_request, self.last_leader_reply) = (sent, SessionInfo::now());
        self.state.send_replace(SessionState::Connected);
        // Watched nodes may have changed since the last connection was lost.
        for watcher in std::mem::take(&mut self.watchers).into_values().flatten() {
            watcher.notify(NodeEvent::ConnectionLost);
        }
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut timer = Box::pin(Clock::boottime().sleep_until(self.next_timeout()));
        loop {
            if let ControlFlow::Break(why) = self.dispatch_all(&mut received) {
                return why;
            }
            // While messages arrive without end, no other branch runs. This limit is later than the timer:
            // after a pause of this process, the leader's reply may come after the bytes that were just read.
            if SessionInfo::now().since(self.last_leader_reply) > self.timeout {
                return CloseReason::Lost(SILENT.into());
            }
            received.reserve(4096);
            let served = tokio::select! {
                biased;
                read = reader.read_buf(&mut received) => match read {
                    Ok(0) => lost("the server closed the connection"),
                    Ok(_) => ControlFlow::Continue(()),
                    Err(error) => lost(error),
                },
                batch = batches.recv() => match batch {
                    Some(batch) => self.send(batch, batches, &mut writer).await,
                    None => {
                        self.close(&mut writer, &mut reader).await;
                        ControlFlow::Break(CloseReason::Unused)
                    }
                },
                () = timer.as_mut() => {
                    let checked = self.check_leader(&mut writer).await;
                    timer.set(Clock::boottime().sleep_until(self.next_timeout()));
                    checked
                }
            };
            if let ControlFlow::Break(why) = served {
                return why;
            }
        }
    }

    /// Sends this batch, and all others that are queued, in one write.
    async fn send(
        &mut self,
        first: Vec<QueuedRequest>,
        batches: &mut RequestBatches,
        writer: &mut WriteHalf<Box<dyn ByteStream>>,
    ) -> ControlFlow<CloseReason> {
        let (sent, mut bytes) = (SessionInfo::now(), Vec::with_capacity(512));
        let more = std::iter::from_fn(|| batches.try_recv().ok());
        for request in std::iter::once(first).chain(more).flatten() {
            match request.condition.as_ref().is_none_or(|holds| holds()) {
                true => self.encode(request, sent, &mut bytes),
                false => {
                    let _ = request.reply.send(Err(WireError::NotSent("its condition does not hold".into())));
                }
            }
        }
        if bytes.is_empty() {
            return ControlFlow::Continue(());
        }
        self.write(&bytes, writer).await
    }

    /// Appends a request to `bytes`, and expects its reply.
    fn encode(&mut self, request: QueuedRequest, sent: Moment, bytes: &mut Vec<u8>) {
        let QueuedRequest { request, watcher, condition: _, reply } = request;
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        request.encode(self.xid, self.config.digest.is_some(), bytes);
        if request.is_answered_by_leader() {
            self.last_leader_request = sent;
        }
        self.in_flight.insert(self.xid, InFlightRequest { request, watcher, reply, sent });
    }

    async fn write(
        &mut self,
        bytes: &[u8],
        writer: &mut WriteHalf<Box<dyn ByteStream>>,
    ) -> ControlFlow<CloseReason> {
        let writing = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        match tokio::time::timeout(self.timeout / 2, writing).await {
            Ok(Ok(())) => ControlFlow::Continue(()),
            Ok(Err(error)) => lost(error),
            Err(_) => lost("the server does not read requests"),
        }
    }

    /// When the next heartbeat is due. At worst the leader learns of a heartbeat half a tick late, and of
    /// none after a network cut. With an eighth of the timeout between heartbeats, a session of three ticks
    /// or more outlives the two thirds that count as certain.
    fn next_heartbeat(&self) -> Moment {
        self.last_leader_request.after(self.timeout / 8)
    }

    /// When a leader without a reply is taken for unreachable: after half of the timeout. Two thirds count as
    /// certain, so a sixth of the timeout is left for another server.
    fn leader_deadline(&self) -> Moment {
        self.last_leader_reply.after(self.timeout / 2)
    }

    fn next_timeout(&self) -> Moment {
        self.next_heartbeat().min(self.leader_deadline())
    }

    /// Sends a heartbeat if the leader got no other request for a while. Gives up a connection on which the
    /// leader does not reply, while there is time to try another server before the session ends.
    async fn check_leader(
        &mut self,
        writer: &mut WriteHalf<Box<dyn ByteStream>>,
    ) -> ControlFlow<CloseReason> {
        let now = SessionInfo::now();
        if now >= self.leader_deadline() {
            return lost(SILENT);
        }
        if now < self.next_heartbeat() {
            return ControlFlow::Continue(());
        }
        let (mut bytes, (reply, _)) = (Vec::new(), oneshot::channel());
        let heartbeat =
            QueuedRequest { request: NodeRequest::heartbeat(), watcher: None, condition: None, reply };
        self.encode(heartbeat, now, &mut bytes);
        self.write(&bytes, writer).await
    }

    /// Dispatches every complete message.
    fn dispatch_all(&mut self, received: &mut Vec<u8>) -> ControlFlow<CloseReason> {
        loop {
            let message = match next_message(received) {
                Ok(Some(message)) => message,
                Ok(None) => return ControlFlow::Continue(()),
                Err(why) => return lost(why),
            };
            match self.dispatch(&message) {
                Some(ControlFlow::Continue(())) => {}
                Some(broken) => return broken,
                None => return lost("the server's answer cannot be read"),
            }
        }
    }

    /// Hands a reply to its request, or an event to its watchers. `None` if the message cannot be parsed.
    fn dispatch(&mut self, message: &[u8]) -> Option<ControlFlow<CloseReason>> {
        let mut message = InputArchive(message);
        let (xid, zxid, code) = (message.int()?, message.long()?, message.int()?);
        match code {
            SESSION_EXPIRED => return Some(ControlFlow::Break(CloseReason::Expired)),
            SESSION_MOVED => return Some(lost("the session has moved to another connection")),
            _ => {}
        }
        match xid {
            EVENT_XID => {
                let (event_type, _state, path) = (message.int()?, message.int()?, message.text()?);
                let event = if event_type == NODE_DELETED { NodeEvent::Deleted } else { NodeEvent::Changed };
                for watcher in self.watchers.remove(&path).into_iter().flatten() {
                    watcher.notify(event);
                }
            }
            AUTH_XID if code != 0 => return Some(lost("the server refuses the user")),
            AUTH_XID => {}
            _ => {
                let InFlightRequest { request, watcher, reply, sent } = self.in_flight.remove(&xid)?;
                self.credentials.last_zxid = self.credentials.last_zxid.max(zxid);
                if request.is_answered_by_leader() {
                    self.info.acknowledge(sent);
                    self.last_leader_reply = SessionInfo::now();
                }
                let result = match code {
                    0 => Ok(request.parse_reply(&mut message)?),
                    code => Err(WireError::Refused(code)),
                };
                if let (
                    Ok(_),
                    Some(watcher),
                    NodeRequest::GetData { path, .. } | NodeRequest::GetCell { path, .. },
                ) = (&result, watcher, request)
                {
                    let watchers = self.watchers.entry(path).or_default();
                    if watchers.len() == watchers.capacity() {
                        watchers.retain(|watcher| watcher.is_wanted());
                    }
                    watchers.push(watcher);
                }
                let _ = reply.send(result);
            }
        }
        Some(ControlFlow::Continue(()))
    }

    fn fail_in_flight(&mut self, why: &ConnectionError) {
        for (_, request) in self.in_flight.drain() {
            let _ = request.reply.send(Err(WireError::Unanswered(why.clone())));
        }
    }

    /// The server ended the session. Its claims are marked as lost before any caller learns that it ended.
    fn expire(mut self) {
        (self.on_expired)(self.credentials.id);
        self.state.send_replace(SessionState::Expired);
        self.fail_in_flight(&"the session ended".into());
        for watcher in std::mem::take(&mut self.watchers).into_values().flatten() {
            watcher.notify(NodeEvent::ConnectionLost);
        }
    }

    /// Closes the session, so that the server removes its ephemeral nodes at once, and waits until the server
    /// closes the connection.
    async fn close(
        &mut self,
        writer: &mut WriteHalf<Box<dyn ByteStream>>,
        reader: &mut ReadHalf<Box<dyn ByteStream>>,
    ) {
        let mut bytes = Vec::new();
        let mut out = OutputArchive::begin(&mut bytes);
        out.int(self.xid.checked_add(1).unwrap_or(1)).int(CLOSE_SESSION);
        out.end();
        // All further messages are discarded.
        let mut sink = tokio::io::sink();
        let closing = async {
            writer.write_all(&bytes).await?;
            writer.flush().await?;
            tokio::io::copy(reader, &mut sink).await
        };
        let _ = tokio::time::timeout(deadline::ZOOKEEPER_CLOSE, closing).await;
    }
}

fn lost(why: impl Into<ConnectionError>) -> ControlFlow<CloseReason> {
    ControlFlow::Break(CloseReason::Lost(why.into()))
}

/// Does `work`. Meanwhile every request fails as not sent. Breaks when all handles of the session are gone.
async fn while_used<T: Send>(
    work: impl Future<Output = T> + Send,
    batches: &mut RequestBatches,
    why: &ConnectionError,
) -> ControlFlow<CloseReason, T> {
    let mut work: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(work);
    loop {
        tokio::select! {
            done = work.as_mut() => return ControlFlow::Continue(done),
            batch = batches.recv() => match batch {
                None => return ControlFlow::Break(CloseReason::Unused),
                Some(requests) => {
                    for request in requests {
                        drop(request.reply.send(Err(WireError::NotSent(why.clone()))));
                    }
                }
            },
        }
    }
}
