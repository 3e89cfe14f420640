//! The state that the handles of one client share, and requests that several verbs use.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::cell_watches::CellWatches;
use super::claim_table::ClaimTable;
use super::errors::{self, protocol_error};
use super::fast_path::FastPath;
use super::node_data::NodeData;
use super::options::Options;
use super::wire::{CreateMode, NodeRequest, Reply, ReplyResult, Session, SessionState, Stat, WireError};
use crate::clock::Moment;
use crate::engine::{ClaimId, ClaimState, Foreign, Grant, Note, Valid};
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Result};

/// One client. When the server ends the session, the client opens another; the claims stay known.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) claims: Arc<ClaimTable>,
    pub(super) fast_path: FastPath,
    pub(super) cell_watches: CellWatches,
    session: Mutex<Arc<Session>>,
    thread: OwnThread,
}

impl Shared {
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn new(options: Options) -> Result<Self> {
        let thread = OwnThread::start("latch-zookeeper").map_err(|error| {
            Error::new(ErrorKind::Unreachable, format!("zookeeper: no thread can be started: {error}"))
        })?;
        let claims = Arc::<ClaimTable>::default();
        let session = Mutex::new(begin_session(&thread, &options, &claims));
        Ok(Self {
            options,
            claims,
            fast_path: FastPath::default(),
            cell_watches: CellWatches::default(),
            session,
            thread,
        })
    }

    /// The newest session. It may have expired.
    pub(super) fn last_session(&self) -> Arc<Session> {
        lock_ignoring_poison(&self.session).clone()
    }

    /// A connected session. A new one, if the server has ended the last.
    ///
    /// # Errors
    /// If no server can be reached. Nothing was sent then.
    pub(super) async fn session(&self) -> Result<Arc<Session>> {
        loop {
            let session = {
                let mut session = lock_ignoring_poison(&self.session);
                if session.is_expired() {
                    *session = begin_session(&self.thread, &self.options, &self.claims);
                }
                session.clone()
            };
            match session.ready().await {
                SessionState::Connected => return Ok(session),
                SessionState::Unreachable { why, .. } => {
                    return Err(errors::unreachable(why, &self.options));
                }
                SessionState::Connecting | SessionState::Expired => {}
            }
        }
    }

    /// The full path of a path below the chroot.
    pub(super) fn path(&self, below: &str) -> String {
        format!("{}{below}", self.options.chroot)
    }

    /// Marks a claim as held. The grant is valid for as long as the session certainly lives.
    pub(super) fn grant(&self, session: &Session, id: ClaimId, czxid: i64) -> Result<Grant> {
        let token = u64::try_from(czxid).ok().filter(|token| *token < 1 << 55);
        let Some(token) = token else {
            let message = format!("zookeeper: transaction {czxid} cannot be a token; it must be below 2^55");
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        self.claims.update(id, |claim| claim.is_held = true);
        Ok(Grant { token: Some(token), valid: Valid::Until(certain_until(session)) })
    }

    /// Creates the node `path` and its parents, in one write. Another client may be faster, and this user may
    /// not create the parents; neither matters if the last node exists in the end.
    pub(super) async fn create_parents(&self, session: &Session, path: &str) -> Result<()> {
        self.create_path(session, path, |path| {
            // The server deletes empty containers. The chroot stays, with the ACL that its owner gave it.
            NodeRequest::Create { path, data: Vec::new(), mode: CreateMode::Container }
        })
        .await
    }

    /// Creates the node `path` and its parents, in one write: those below the chroot by `request`.
    ///
    /// # Errors
    /// If the last node does not exist. No claim is affected, so the effect is none.
    pub(super) async fn create_path(
        &self,
        session: &Session,
        path: &str,
        request: impl Fn(String) -> NodeRequest,
    ) -> Result<()> {
        let ends = path.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
        let requests: Vec<_> = ends
            .chain([path.len()])
            .map(|end| {
                let path = path[..end].to_owned();
                match end > self.options.chroot.len() {
                    true => request(path),
                    false => NodeRequest::Create { path, data: Vec::new(), mode: CreateMode::Persistent },
                }
            })
            .collect();
        let last = requests.last().cloned();
        let replies = session.send_all(requests.into_iter().map(|request| (request, None)).collect()).await;
        match replies.into_iter().last().zip(last) {
            Some((Err(wire_error), request)) if wire_error != WireError::NODE_EXISTS => {
                Err(errors::request_failed(&wire_error, &request, &self.options).with_effect(Effect::None))
            }
            _ => Ok(()),
        }
    }

    /// Sends one request. `None`: it failed with one of the `expected` errors.
    ///
    /// # Errors
    /// See [`errors::request_failed`].
    pub(super) async fn send(
        &self,
        session: &Session,
        request: NodeRequest,
        expected: &[WireError],
    ) -> Result<Option<Reply>> {
        let [reply] = session.send([(request.clone(), None)]).await;
        self.expect(reply, &request, expected)
    }

    /// The reply to a request. `None`: it failed with one of the `expected` errors.
    pub(super) fn expect(
        &self,
        reply: ReplyResult,
        request: &NodeRequest,
        expected: &[WireError],
    ) -> Result<Option<Reply>> {
        match reply {
            Ok(reply) => Ok(Some(reply)),
            Err(wire_error) if expected.contains(&wire_error) => Ok(None),
            Err(wire_error) => Err(errors::request_failed(&wire_error, request, &self.options)),
        }
    }

    /// Lists the children of a node. A node that does not exist has none.
    pub(super) async fn list(&self, session: &Session, path: &str) -> Result<Vec<String>> {
        let list = NodeRequest::GetChildren { path: path.to_owned() };
        match self.send(session, list, &[WireError::NO_NODE]).await? {
            Some(Reply::Children(children)) => Ok(children),
            _ => Ok(Vec::new()),
        }
    }

    /// Lists children after a `sync`. A reply may be missing because its connection broke, and the server
    /// that replies now may be behind the one that carried out the request.
    pub(super) async fn sync_and_list(&self, session: &Session, path: &str) -> Result<Vec<String>> {
        let sync = NodeRequest::Sync { path: path.to_owned() };
        let list = NodeRequest::GetChildren { path: path.to_owned() };
        let [synced, listed] = session.send([(sync.clone(), None), (list.clone(), None)]).await;
        if let Err(wire_error) = synced
            && wire_error != WireError::NO_NODE
        {
            return Err(errors::request_failed(&wire_error, &sync, &self.options));
        }
        match listed {
            Ok(Reply::Children(children)) => Ok(children),
            Err(wire_error) if wire_error == WireError::NO_NODE => Ok(Vec::new()),
            Err(wire_error) => Err(errors::request_failed(&wire_error, &list, &self.options)),
            Ok(_) => Err(protocol_error()),
        }
    }
}

fn begin_session(thread: &OwnThread, options: &Options, claims: &Arc<ClaimTable>) -> Arc<Session> {
    let claims = claims.clone();
    let on_expired = move |session| claims.session_expired(session);
    Arc::new(Session::begin(thread, options.session.clone(), on_expired))
}

/// The end of the time in which a session certainly lives: two thirds of its timeout after the newest
/// acknowledged request was sent. The last third is for servers that learn of that request late.
pub(super) fn certain_until(session: &Session) -> Moment {
    session.acknowledged().after(session.timeout() * 2 / 3)
}

/// The id of another program's claim: the transaction that created its node.
fn foreign_id(czxid: i64) -> ClaimId {
    let mut bytes = *b"foreign:--------";
    bytes[8..].copy_from_slice(&czxid.to_be_bytes());
    ClaimId::from_bytes(bytes)
}

/// The state of a claim, as its node describes it. `id` is the id in the node's name.
pub(super) fn claim_state(id: Option<ClaimId>, value: &[u8], stat: &Stat) -> ClaimState {
    let data = NodeData::parse(value);
    let id = id.or_else(|| data.as_ref().map(|data| data.id)).unwrap_or_else(|| foreign_id(stat.czxid));
    let mut state = ClaimState::new(id);
    let is_ephemeral = stat.ephemeral_owner != 0;
    state.foreign =
        data.is_none().then(|| Box::new(Foreign::new("node", value).bound_to_session(is_ephemeral)));
    let foreign_note = || Note::new("a client that is not latchwork");
    state.note = data.map_or_else(foreign_note, |data| data.note);
    let since = Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0));
    state.since = SystemTime::UNIX_EPOCH.checked_add(since);
    state
}
