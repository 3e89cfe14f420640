//! What the handles of one client share: its session, its claims, and how it talks to the server.

use std::sync::{Arc, Mutex};

use super::cell_watches::CellWatches;
use super::claims::Claims;
use super::failure;
use super::fast_path::FastPath;
use super::options::Options;
use super::wire::{Create, Reply, Request, Session, State, WireError};
use crate::clock::Moment;
use crate::engine::{ClaimId, ClaimState, Foreign, Grant, Valid};
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Result};

/// One client: its session is replaced when the server ends it, its claims are not.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) claims: Arc<Claims>,
    pub(super) quiet: FastPath,
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
        let claims = Arc::<Claims>::default();
        let session = Mutex::new(begin(&thread, &options, &claims));
        Ok(Self {
            options,
            claims,
            quiet: FastPath::default(),
            cell_watches: CellWatches::default(),
            session,
            thread,
        })
    }

    /// The session as it stands, be it over.
    pub(super) fn last_session(&self) -> Arc<Session> {
        lock_ignoring_poison(&self.session).clone()
    }

    /// A session that is connected; a new one, if the server ended the last.
    ///
    /// # Errors
    /// If no server can be reached. Nothing was sent then.
    pub(super) async fn session(&self) -> Result<Arc<Session>> {
        loop {
            let session = {
                let mut session = lock_ignoring_poison(&self.session);
                if session.is_over() {
                    *session = begin(&self.thread, &self.options, &self.claims);
                }
                session.clone()
            };
            match session.ready().await {
                State::Connected => return Ok(session),
                State::Unreachable { why, .. } => return Err(failure::unreachable(why, &self.options)),
                State::Connecting | State::Expired => {}
            }
        }
    }

    /// The whole path of one below the chroot.
    pub(super) fn path(&self, below: &str) -> String {
        format!("{}{below}", self.options.chroot)
    }

    /// A lock that is held from now on, for as long as the session surely lives: two thirds of its timeout after the
    /// newest request that was acknowledged was sent. The rest is for servers that hear of it late.
    pub(super) fn grant(&self, session: &Session, id: ClaimId, czxid: i64) -> Result<Grant> {
        let token = u64::try_from(czxid).ok().filter(|token| *token < 1 << 55);
        let Some(token) = token else {
            let message = format!("zookeeper: transaction {czxid} cannot be a token; it must be below 2^55");
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        self.claims.update(id, |entry| entry.is_held = true);
        Ok(Grant { token: Some(token), valid: Valid::Until(certain_until(session)) })
    }

    /// Makes the nodes on the way to `path`, and itself. All in one write; that somebody else was faster, or that this
    /// user may not touch what is above, does not matter if the last one is there in the end.
    pub(super) async fn make_parents(&self, session: &Session, path: &str) -> Result<()> {
        let ends = path.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
        let requests: Vec<_> = ends
            .chain([path.len()])
            .map(|end| {
                // The server sweeps containers that are empty; the chroot stays, with what its owner did to it.
                let is_below = end > self.options.chroot.len();
                let kind = if is_below { Create::Container } else { Create::Persistent };
                Request::Create { path: path[..end].to_owned(), data: Vec::new(), kind }
            })
            .collect();
        let last = requests.last().cloned();
        let answers = session.ask_all(requests.into_iter().map(|request| (request, None)).collect()).await;
        match answers.into_iter().last().zip(last) {
            Some((Err(wire_error), _)) if wire_error == WireError::NODE_EXISTS => Ok(()),
            // A lock's own nodes are no claim: whether they were made makes no difference.
            Some((Err(wire_error), request)) => {
                Err(failure::failed(&wire_error, &request, &self.options).with_effect(crate::Effect::None))
            }
            _ => Ok(()),
        }
    }

    /// Sends one request.
    ///
    /// # Errors
    /// As [`failure::failed`] has it; what `fine` lets pass is `None`.
    pub(super) async fn ask(
        &self,
        session: &Session,
        request: Request,
        fine: &[WireError],
    ) -> Result<Option<Reply>> {
        let [answer] = session.ask([(request.clone(), None)]).await;
        match answer {
            Ok(reply) => Ok(Some(reply)),
            Err(wire_error) if fine.contains(&wire_error) => Ok(None),
            Err(wire_error) => Err(failure::failed(&wire_error, &request, &self.options)),
        }
    }

    /// Lists children after everything that was done before: an answer may be missing because its connection broke, and
    /// the server that answers now may be behind the one that did it.
    pub(super) async fn newest_children(&self, session: &Session, path: &str) -> Result<Vec<String>> {
        let sync = Request::Sync { path: path.to_owned() };
        let list = Request::Children { path: path.to_owned() };
        let [synced, listed] = session.ask([(sync.clone(), None), (list.clone(), None)]).await;
        if let Err(wire_error) = synced
            && wire_error != WireError::NO_NODE
        {
            return Err(failure::failed(&wire_error, &sync, &self.options));
        }
        match listed {
            Ok(Reply::Children(children)) => Ok(children),
            Err(wire_error) if wire_error == WireError::NO_NODE => Ok(Vec::new()),
            Err(wire_error) => Err(failure::failed(&wire_error, &list, &self.options)),
            Ok(_) => Err(protocol_error()),
        }
    }
}

fn begin(thread: &OwnThread, options: &Options, claims: &Arc<Claims>) -> Arc<Session> {
    let claims = claims.clone();
    Arc::new(Session::begin(thread, options.place.clone(), move |session| claims.session_ended(session)))
}

/// Until when a session surely lives.
pub(super) fn certain_until(session: &Session) -> Moment {
    session.acknowledged().after(session.timeout() * 2 / 3)
}

/// A claim of another client, which has no id of ours: it is known by the transaction that made its node.
pub(super) fn foreign_id(czxid: i64) -> ClaimId {
    let mut bytes = *b"foreign:--------";
    bytes[8..].copy_from_slice(&czxid.to_be_bytes());
    ClaimId::from_bytes(bytes)
}

/// What a node says of its claim. `id` is what its name says.
pub(super) fn state_of(id: Option<ClaimId>, data: &[u8], stat: &super::wire::Stat) -> ClaimState {
    let value = data;
    let data = super::data::Data::read(value);
    let id = id.or_else(|| data.as_ref().map(|data| data.id)).unwrap_or_else(|| foreign_id(stat.czxid));
    let mut state = ClaimState::new(id);
    state.foreign =
        data.is_none().then(|| Box::new(Foreign::new("node", value).bound_to_session(stat.owner != 0)));
    let stranger = || crate::engine::Note::new("a client that is not latchwork");
    state.note = data.map_or_else(stranger, |data| data.note);
    let since = std::time::Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0));
    state.since = std::time::SystemTime::UNIX_EPOCH.checked_add(since);
    state
}

pub(super) fn protocol_error() -> Error {
    Error::new(ErrorKind::Corrupt, "zookeeper: unexpected reply to a request")
}
