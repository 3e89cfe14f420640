//! A client: one engine session, its queue and its keeper.

use std::sync::Arc;
use std::time::Duration;

use crate::core::{ClientHandle, Core};
use crate::engine::{Engine, Filter, LockState, Note, Revoke, Revoked};
use crate::{Effect, Guarantees, Lock, Result};

/// A connection to an engine, from which locks are taken. Cheap to clone; clones share everything.
///
/// Tasks of one client queue among themselves, and only clients compete on the wire.
///
/// # Dropping
/// A dropped guard sends its release and does not wait for the reply. The drop of the *last* client, lock,
/// cell and guard of a connection waits for outstanding releases. So `main` can return, also early by `?` or
/// with a panic, and the locks are free. This drop may block its thread, even a runtime worker, for at most
/// [`Client::with_drop_timeout`], however many guards there were.
///
/// A client in a `static` is never dropped: call [`Client::close`] before the process ends.
/// `std::process::exit` drops nothing either.
#[derive(Clone)]
pub struct Client {
    core: ClientHandle,
    note: Note,
}

impl Client {
    /// A client around an engine, for example one made from a connection the application already has.
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

    /// What others are shown of this client while it holds a lock, after host and process id.
    pub fn with_note(mut self, text: &str) -> Self {
        self.note = Note::of_this_process(text);
        self
    }

    /// Sets all of what others are shown of this client: nothing is put before it. Control characters become
    /// spaces, and what exceeds [`Note::MAX_BYTES`] is cut.
    pub fn with_whole_note(mut self, text: &str) -> Self {
        self.note = Note::new(text);
        self
    }

    /// Describes a lock; nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.core.clone(), name.as_ref(), self.note.clone())
    }

    pub(crate) fn core(&self) -> &ClientHandle {
        &self.core
    }

    /// What the engine promises.
    pub fn guarantees(&self) -> Guarantees {
        self.core.engine.guarantees()
    }

    /// Who holds and who waits.
    ///
    /// # Errors
    /// What the engine says, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) in a fork of the process that
    /// connected.
    ///
    /// # Cancel safety
    /// Reads only; may be dropped at any time.
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
        let looking = self.core.engine.clone().inspect(filter.clone());
        let looked = self.core.answer(looking, self.core.clock.now()).await;
        // An engine may not know that a lost request only reads.
        looked.map_err(|error| error.with_effect(Effect::None))
    }

    /// Takes a lock away from the holders named in `state`, as an operator.
    ///
    /// A holder that is another program's is not touched, unless `how` asks for such holders. What cannot be
    /// a lock (a Redis key that is no string) never is.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`](crate::ErrorKind::Foreign) if a holder is another program's: nothing was changed.
    /// Otherwise what the engine says, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) in a fork of the
    /// process that connected.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lock may or may not have been taken away.
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

    /// As [`Client::revoke`], with the reason. It goes into the event that `tracing` gets of every revocation. The
    /// holder is not told: no engine keeps a reason.
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

    /// Waits until what goes on in the background is done: releases of dropped guards, withdrawals of dropped
    /// acquires, releases that are being repeated, locks that [`hold_at_least`](crate::Lock::hold_at_least) keeps. At most 10 s
    /// more than the last of these is kept.
    ///
    /// Live guards are not touched, and this client and its clones can still be used. Call it before the
    /// process ends if the client is never dropped (a `static`), if its drop must not block the thread, or to
    /// learn whether everything was released.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if something is not done by then; it goes on. And
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) in a fork, where nothing goes on.
    ///
    /// # Cancel safety
    /// Only waits; may be dropped at any time.
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
