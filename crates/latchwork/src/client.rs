//! A client: a session with an engine, its local queue and its keeper.

use std::sync::Arc;
use std::time::Duration;

use crate::core::{ClientHandle, Core};
use crate::engine::{Engine, Filter, LockState, Note, Revoke, Revoked};
use crate::{Effect, Guarantees, Lock, Result};

/// A connection to an engine, from which locks are acquired. Cheap to clone; clones share one session.
///
/// Tasks of one client queue locally, and only clients compete on the server.
///
/// # Dropping
/// A dropped guard sends its release and does not wait for the reply. The drop of the *last* client, lock,
/// cell and guard of a connection waits for outstanding releases. So `main` can return, also early by `?` or
/// with a panic, and the locks are free. This drop may block its thread, even a runtime worker, for at most
/// [`Client::with_drop_timeout`], regardless of the number of guards.
///
/// A client in a `static` is never dropped: call [`Client::close`] before the process ends.
/// `std::process::exit` drops nothing either.
#[derive(Clone)]
pub struct Client {
    core: ClientHandle,
    note: Note,
}

impl Client {
    /// A client of an engine, for example of one that uses a connection of the application.
    pub fn new(engine: impl Engine) -> Self {
        Self { core: ClientHandle::new(Core::new(Arc::new(engine))), note: Note::of_this_process("") }
    }

    /// Sets how long the drop of the last client, lock, cell and guard of this connection may block its
    /// thread to wait for outstanding releases. The default is 1 s. Zero disables the wait. Clones share the
    /// setting. On `memory:` the drop never waits.
    pub fn with_drop_timeout(self, timeout: Duration) -> Self {
        self.core.set_drop_timeout(timeout);
        self
    }

    /// Sets a text that describes this client to others while it holds a lock, after its host and process id.
    pub fn with_note(mut self, text: &str) -> Self {
        self.note = Note::of_this_process(text);
        self
    }

    /// Sets the whole text that describes this client to others, without host and process id. Control
    /// characters become spaces, and the text is cut at [`Note::MAX_BYTES`].
    pub fn with_whole_note(mut self, text: &str) -> Self {
        self.note = Note::new(text);
        self
    }

    /// Describes a lock. Nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.core.clone(), name.as_ref(), self.note.clone())
    }

    pub(crate) fn core(&self) -> &ClientHandle {
        &self.core
    }

    /// The promises of the engine.
    pub fn guarantees(&self) -> Guarantees {
        self.core.engine.guarantees()
    }

    /// The holders and waiters of the matching locks.
    ///
    /// # Guarantees
    /// Each lock is shown as the engine stores it at one moment during the call. It may change before the
    /// caller sees it.
    ///
    /// # Errors
    /// The errors of the engine, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) in a fork of the
    /// process that connected.
    ///
    /// # Cancel safety
    /// Only reads, and may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::engine::Filter;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let guard = client.lock("report").acquire().await?;
    /// let all = client.inspect(&Filter::Prefix(String::new())).await?;
    /// assert_eq!(all[0].holders[0].token, Some(guard.token()?.engine_token()));
    /// # Ok(()) }
    /// ```
    pub async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.core.refuse_a_copy()?;
        let request = self.core.engine.clone().inspect(filter.clone());
        let states = self.core.answer(request, self.core.clock.now()).await;
        // An engine may not know that the lost request only reads.
        states.map_err(|error| error.with_effect(Effect::None))
    }

    /// Takes a lock away from the holders in `state`, for an operator.
    ///
    /// A holder written by another program is left alone, unless `how` includes such holders. A value that
    /// cannot be a lock (a Redis key that is not a string) is always left alone.
    ///
    /// # Guarantees
    /// A holder that is not in `state` keeps the lock.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`](crate::ErrorKind::Foreign) if a holder was written by another program; nothing
    /// was changed. Otherwise the errors of the engine, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid)
    /// in a fork of the process that connected.
    ///
    /// # Cancel safety
    /// When it is dropped before it returns, the lock may or may not have been taken away.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::engine::{Filter, Revoke, Revoked};
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let _guard = client.lock("stuck").acquire().await?;
    /// let state = client.inspect(&Filter::Prefix("stuck".into())).await?.remove(0);
    /// assert_eq!(client.revoke(&state, Revoke::Now).await?, Revoked::Done);
    /// # Ok(()) }
    /// ```
    pub async fn revoke(&self, state: &LockState, how: Revoke) -> Result<Revoked> {
        self.revoke_because(state, how, "").await
    }

    /// As [`Client::revoke`], with a reason. The reason is part of the `tracing` event of the revocation. The
    /// holder does not get it, because no engine stores it.
    ///
    /// # Guarantees
    /// As [`Client::revoke`].
    ///
    /// # Errors
    /// As [`Client::revoke`].
    ///
    /// # Cancel safety
    /// As [`Client::revoke`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::engine::{Filter, Revoke};
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let _guard = client.lock("stuck").acquire().await?;
    /// let state = client.inspect(&Filter::Prefix("stuck".into())).await?.remove(0);
    /// client.revoke_because(&state, Revoke::AtLeaseEnd, "incident 4711").await?;
    /// # Ok(()) }
    /// ```
    pub async fn revoke_because(&self, state: &LockState, how: Revoke, reason: &str) -> Result<Revoked> {
        self.core.refuse_a_copy()?;
        let revoking = self.core.engine.clone().revoke(state.clone(), how);
        let revoked = self.core.answer(revoking, self.core.clock.now()).await;
        self.core.telemetry.revoked(&state.name, how, reason, &revoked);
        revoked
    }

    /// Waits until the background work is done: releases of dropped guards, withdrawals of dropped acquires,
    /// repeated releases, and locks that [`hold_at_least`](crate::Lock::hold_at_least) keeps. The wait ends
    /// at the latest 10 s after the last of the kept locks may be released.
    ///
    /// Live guards keep their locks, and this client and its clones can still be used. Call it before the
    /// process ends if the client is never dropped (a `static`), if its drop must not block the thread, or to
    /// learn whether every lock was released.
    ///
    /// # Guarantees
    /// On `Ok`, the engine has replied to every release and withdrawal that was outstanding when this was
    /// called.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if some work is not done by then; it
    /// continues. And [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) in a fork, which has no background
    /// work.
    ///
    /// # Cancel safety
    /// Only waits, and may be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// drop(client.lock("report").acquire().await?);
    /// client.close().await?;
    /// assert!(client.inspect(&latchwork::engine::Filter::Prefix(String::new())).await?.is_empty());
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        self.core.refuse_a_copy()?;
        self.core.flush().await
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("engine", &self.guarantees().engine).finish_non_exhaustive()
    }
}
