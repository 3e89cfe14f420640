//! What a database must be able to do for session locks.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Key, Moving};
use crate::engine::url_options::{SESSION_TTL, choice, session_ttl};
use crate::engine::{EngineUrl, Note};
use crate::engines::sql::Database;
use crate::net::deadline;
use crate::net::own_thread::OwnThread;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// The other end of a connection, as the server names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct Backend {
    pub(in crate::engines) number: i64,
    /// Tells it from a later one with the same number; zero if the server does not say.
    pub(in crate::engines) since: i64,
}

/// One that holds a lock, or waits for it.
#[derive(Clone, Debug)]
pub(in crate::engines) struct Seen {
    pub(in crate::engines) backend: Backend,
    pub(in crate::engines) is_held: bool,
    /// The name of another program's connection; `None` for one of ours.
    pub(in crate::engines) stranger: Option<String>,
    pub(in crate::engines) note: Note,
}

/// The answer to a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Tried {
    /// Held, with its token if one was asked for.
    Held(Option<u64>),
    Busy,
}

/// On what terms it keeps them.
pub(in crate::engines) struct Terms {
    /// How long the server keeps a silent connection.
    pub(in crate::engines) ttl: Duration,
    /// Whether every claim gets a token, asked for or not.
    pub(super) fences_all: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { ttl: SESSION_TTL, fences_all: false }
    }
}

impl Terms {
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option and what it takes.
    pub(in crate::engines) fn of(url: &EngineUrl) -> Result<Self> {
        let fences_all = choice(url, "fenced", &[("asked", false), ("always", true)])?;
        Ok(Self { ttl: session_ttl(url)?, fences_all })
    }

    /// For a server that counts so.
    #[cfg(feature = "mysql")]
    pub(in crate::engines) fn in_whole_seconds(self) -> Self {
        let ttl = Duration::from_secs(self.ttl.as_millis().div_ceil(1_000) as u64);
        Self { ttl, ..self }
    }

    /// How long one wait in the server may take: a part of the ttl, because certainty counts from when it was sent.
    pub(in crate::engines) fn slice(&self) -> Duration {
        self.ttl / 3
    }
}

/// Lives with what moves a connection. Dropped with it: whoever has locks on the connection is told.
pub(super) struct Ended(Option<Box<dyn FnOnce() + Send>>);

impl Ended {
    pub(super) fn new(tell: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

/// The error of an [`end`](Connection::end) that the server did not carry out in time: whatever is held there still is.
pub(in crate::engines) fn still_there(engine: &str, place: &str, number: i64) -> Error {
    let message = format!("{engine} at {place}: connection {number} was told to end, and is still open");
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}

/// A server that keeps locks for connections.
pub(in crate::engines) trait Server: Send + Sync + 'static {
    type Connection: Connection;
    /// The database with the table of tokens, for sweeps.
    type Tokens: Database;

    /// What its guarantees are called.
    fn engine(&self) -> &'static str;

    /// Where it is, as it may be shown.
    fn place(&self) -> &str;

    fn terms(&self) -> &Terms;

    fn key(&self, name: &LockName) -> Key;

    /// Connects with the first statement.
    fn tokens(&self) -> Self::Tokens;

    /// Refuses what would lose locks: something between us and the server that shares its connections.
    fn refuse_unfit(&self) -> impl Future<Output = Result<()>> + Send;

    /// Opens a connection, which never comes back to life, on the runtime it is called on. Refuses a server that only follows
    /// another.
    fn open(&self, moving: &Arc<Moving>) -> impl Future<Output = Result<Self::Connection>> + Send;
}

/// A connection. Requests are carried out in the order in which they are first polled, also those that nobody waits for any
/// more: that is what makes an answer that is missing harmless.
pub(in crate::engines) trait Connection: Send + Sync + 'static {
    fn backend(&self) -> Backend;

    /// Whether a request would only fail.
    fn is_closed(&self) -> bool;

    /// Takes the lock if it is free; with a token for `fenced`. Never asked for a lock that this connection may have.
    fn try_lock(
        &self,
        key: Key,
        fenced: Option<&LockName>,
        note: &Note,
    ) -> impl Future<Output = Result<Tried>> + Send;

    /// Waits in the server for a slice. Whether the lock is held then.
    fn wait_lock(&self, key: Key, note: &Note) -> impl Future<Output = Result<bool>> + Send;

    /// A new token of this lock, durable when this returns.
    fn draw_token(&self, name: &LockName) -> impl Future<Output = Result<u64>> + Send;

    /// Whether a sweep of the table of tokens is due.
    fn is_sweep_due(&self) -> impl Future<Output = Result<bool>> + Send;

    /// Gives the lock back. Whether it was held.
    fn unlock(&self, key: Key) -> impl Future<Output = Result<bool>> + Send;

    /// A sign of life.
    fn beat(&self) -> impl Future<Output = Result<()>> + Send;

    /// Ends another connection, and with it all its locks: it is gone when this returns. False if there is none such any more.
    fn end(&self, backend: Backend) -> impl Future<Output = Result<bool>> + Send;

    /// Who holds a lock and who waits for it, as far as the server tells.
    fn seen(&self, key: Key) -> impl Future<Output = Result<Vec<Seen>>> + Send;
}

/// A connection that nobody answers on any more, however far it came, is given up.
pub(super) async fn in_time<T>(
    server: &impl Server,
    thread: &OwnThread,
    opening: impl Future<Output = Result<T>>,
) -> Result<T> {
    thread.in_time(deadline::CONNECT, opening).await.unwrap_or_else(|| {
        let message = format!(
            "{} at {}: no answer to the connection within {:?}",
            server.engine(),
            server.place(),
            deadline::CONNECT
        );
        Err(Error::new(ErrorKind::Unreachable, message))
    })
}
