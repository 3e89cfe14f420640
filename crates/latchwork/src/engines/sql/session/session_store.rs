//! The interface between the session engine and a database.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Key, Moving};
use crate::engine::url_options::{SESSION_TTL, choice, session_ttl};
use crate::engine::{EngineUrl, Note};
use crate::engines::sql::RowStore;
use crate::net::deadline;
use crate::net::own_thread::OwnThread;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// The server's side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) struct Backend {
    pub(in crate::engines) number: i64,
    /// Distinguishes it from a later backend with the same number. Zero if the server does not show it.
    pub(in crate::engines) since: i64,
}

/// A connection that holds a lock, or waits for it.
#[derive(Clone, Debug)]
pub(in crate::engines) struct Participant {
    pub(in crate::engines) backend: Backend,
    pub(in crate::engines) is_holder: bool,
    /// The name of another program's connection; `None` for a connection of Latchwork.
    pub(in crate::engines) foreign: Option<String>,
    pub(in crate::engines) note: Note,
}

/// The answer to [`SessionConnection::try_lock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum TryLock {
    /// Granted, with the token if one was requested.
    Held(Option<u64>),
    Busy,
}

/// The terms on which the server keeps connections and their locks.
pub(in crate::engines) struct SessionTerms {
    /// How long the server keeps a silent connection.
    pub(in crate::engines) ttl: Duration,
    /// Whether every claim gets a token, even if it does not request one.
    pub(super) fences_all: bool,
}

impl Default for SessionTerms {
    fn default() -> Self {
        Self { ttl: SESSION_TTL, fences_all: false }
    }
}

impl SessionTerms {
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option and its valid values.
    pub(in crate::engines) fn of(url: &EngineUrl) -> Result<Self> {
        let fences_all = choice(url, "fenced", &[("asked", false), ("always", true)])?;
        Ok(Self { ttl: session_ttl(url)?, fences_all })
    }

    /// For a server that counts in whole seconds.
    #[cfg(feature = "mysql")]
    pub(in crate::engines) fn in_whole_seconds(self) -> Self {
        let ttl = Duration::from_secs(self.ttl.as_millis().div_ceil(1_000) as u64);
        Self { ttl, ..self }
    }

    /// The longest single wait in the server. It is a part of the ttl, because the lease counts from the time
    /// at which the request was sent.
    pub(in crate::engines) fn slice(&self) -> Duration {
        self.ttl / 3
    }
}

/// Runs a function when the task that drives a connection is dropped: the holders of locks on it must learn
/// of its end.
pub(super) struct CloseHook(Option<Box<dyn FnOnce() + Send>>);

impl CloseHook {
    pub(super) fn new(on_close: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(on_close)))
    }
}

impl Drop for CloseHook {
    fn drop(&mut self) {
        if let Some(on_close) = self.0.take() {
            on_close();
        }
    }
}

/// The error for a [`terminate`](SessionConnection::terminate) that the server did not carry out in time: all
/// locks of that connection are still held.
pub(in crate::engines) fn not_terminated(engine: &str, shown_as: &str, number: i64) -> Error {
    let message = format!("{engine} at {shown_as}: connection {number} was terminated, but is still open");
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}

/// A server that keeps locks for connections.
pub(in crate::engines) trait SessionStore: Send + Sync + 'static {
    type Connection: SessionConnection;
    /// The store with the table of tokens, for sweeps.
    type Tokens: RowStore;

    /// The engine's name in its guarantees.
    fn engine(&self) -> &'static str;

    /// The server's address, without secrets.
    fn shown_as(&self) -> &str;

    fn terms(&self) -> &SessionTerms;

    fn key(&self, name: &LockName) -> Key;

    /// Connects with the first statement.
    fn tokens(&self) -> Self::Tokens;

    /// Refuses a server on which locks would be lost: a proxy or pooler in between shares its connections
    /// between clients.
    fn refuse_unfit(&self) -> impl Future<Output = Result<()>> + Send;

    /// Opens a connection on the runtime of the caller. Once closed, it stays closed. Refuses a replica.
    fn open(&self, moving: &Arc<Moving>) -> impl Future<Output = Result<Self::Connection>> + Send;
}

/// A connection that can hold locks. Requests are carried out in the order in which they are first polled,
/// even if the caller no longer waits for the reply. So a request after an unanswered one has a known effect.
pub(in crate::engines) trait SessionConnection: Send + Sync + 'static {
    fn backend(&self) -> Backend;

    /// Whether any request would fail.
    fn is_closed(&self) -> bool;

    /// Takes the lock if it is free, and draws a token for the name in `fenced`. Never called for a lock that
    /// this connection may hold.
    fn try_lock(
        &self,
        key: Key,
        fenced: Option<&LockName>,
        note: &Note,
    ) -> impl Future<Output = Result<TryLock>> + Send;

    /// Waits in the server for at most a slice. Returns whether the lock is held.
    fn wait_lock(&self, key: Key, note: &Note) -> impl Future<Output = Result<bool>> + Send;

    /// Draws a new token of this lock. It is durable when this returns.
    fn draw_token(&self, name: &LockName) -> impl Future<Output = Result<u64>> + Send;

    /// Whether a sweep of the table of tokens is due.
    fn is_sweep_due(&self) -> impl Future<Output = Result<bool>> + Send;

    /// Releases the lock. Returns whether it was held.
    fn unlock(&self, key: Key) -> impl Future<Output = Result<bool>> + Send;

    /// Sends a request without effect, so that the server keeps the connection.
    fn heartbeat(&self) -> impl Future<Output = Result<()>> + Send;

    /// Ends another connection and all its locks, and waits until it is gone. Returns false if it does not
    /// exist any more.
    fn terminate(&self, backend: Backend) -> impl Future<Output = Result<bool>> + Send;

    /// The holder of a lock and its waiters, as far as the server lists them.
    fn participants(&self, key: Key) -> impl Future<Output = Result<Vec<Participant>>> + Send;
}

/// Gives up opening a connection after [`deadline::CONNECT`], at whatever step it is.
pub(super) async fn open_in_time<T>(
    store: &impl SessionStore,
    thread: &OwnThread,
    opening: impl Future<Output = Result<T>>,
) -> Result<T> {
    thread.in_time(deadline::CONNECT, opening).await.unwrap_or_else(|| {
        let (engine, shown_as) = (store.engine(), store.shown_as());
        let message =
            format!("{engine} at {shown_as}: no answer to the connection within {:?}", deadline::CONNECT);
        Err(Error::new(ErrorKind::Unreachable, message))
    })
}
