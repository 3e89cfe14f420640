//! Several held locks, as one guard.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::join::{join_all, select_all};
use crate::{ErrorKind, Guard, Held, LockName, Loss, Result, Token};

/// Several held locks, as one guard. It is lost when any of them is. Returned by
/// [`MultiLock`](crate::MultiLock). Derefs to [`MultiHeld`], which describes the locks.
#[must_use = "dropping a guard releases its locks"]
#[derive(Debug)]
pub struct MultiGuard {
    guards: Vec<Guard>,
    held: MultiHeld,
}

impl MultiGuard {
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        let held = MultiHeld(guards.iter().map(Guard::held).collect());
        Self { guards, held }
    }

    /// A view of the locks, for the work that they protect.
    pub fn held(&self) -> MultiHeld {
        self.held.clone()
    }

    /// Releases all of them at once, and returns when the engine has replied for each.
    ///
    /// # Guarantees
    /// As [`Guard::release`], for each.
    ///
    /// # Cancel safety
    /// When it is dropped before it returns, the releases continue in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if any lock was no longer held; otherwise the first error of the engine.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// client.multi_lock(["a", "b"]).acquire().await?.release().await?;
    /// assert!(client.lock("a").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<()> {
        let released = join_all(self.guards.into_iter().map(Guard::release)).await;
        let mut failed: Vec<_> = released.into_iter().filter_map(Result::err).collect();
        failed.sort_by_key(|error| error.kind() != ErrorKind::Lost);
        failed.into_iter().next().map_or(Ok(()), Err)
    }
}

impl Deref for MultiGuard {
    type Target = MultiHeld;

    fn deref(&self) -> &MultiHeld {
        &self.held
    }
}

/// A view of several held locks. Cheap to clone. It does not keep the locks.
#[derive(Clone, Debug)]
pub struct MultiHeld(Arc<[Held]>);

impl MultiHeld {
    /// A view of each lock, in the order of their names.
    pub fn each(&self) -> &[Held] {
        &self.0
    }

    /// The fencing token of one of them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that is not among them, [`ErrorKind::Unsupported`] on an engine
    /// without tokens.
    pub fn token(&self, name: impl AsRef<str>) -> Result<Token> {
        let name = LockName::new(name)?;
        match self.0.iter().find(|held| *held.name() == name) {
            Some(held) => held.token(),
            None => Err(crate::Error::new(ErrorKind::Invalid, "it is not among these locks").about(&name)),
        }
    }

    /// Whether all of them are held for certain at this instant, as [`Held::is_certain`].
    pub fn is_certain(&self) -> bool {
        self.0.iter().all(Held::is_certain)
    }

    /// The rest of the shortest lease, as [`Held::remaining`].
    pub fn remaining(&self) -> Duration {
        self.0.iter().map(Held::remaining).min().unwrap_or_default()
    }

    /// Resolves when any of them is lost, with its name and the reason.
    ///
    /// # Guarantees
    /// As [`Held::lost`], for each.
    ///
    /// # Cancel safety
    /// May be dropped at any time, and called again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::{Client, LockName, Loss, engines::Memory};
    ///
    /// let engine = Memory::new();
    /// let both = Client::new(engine.clone()).multi_lock(["from", "to"]).acquire().await?;
    /// engine.lose(&LockName::new("to")?);
    /// assert_eq!(both.lost().await, (&LockName::new("to")?, Loss::Removed));
    /// assert!(!both.is_certain());
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> (&LockName, Loss) {
        let (at, why) = select_all(self.0.iter().map(Held::lost)).await;
        (self.0[at].name(), why)
    }
}
