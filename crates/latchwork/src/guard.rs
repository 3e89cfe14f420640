//! A held lock.

use std::time::Duration;

use crate::clock::Moment;
use crate::core::Tenure;
use crate::engine::Released;
use crate::{Error, ErrorKind, LockName, Loss, Result, Token};

/// A held lock. Renewed in the background while it lives; released by [`Guard::release`], or in the background when
/// dropped.
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    tenure: Tenure,
}

impl Guard {
    pub(crate) fn new(tenure: Tenure) -> Self {
        Self { tenure }
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.tenure.claim().name
    }

    /// The fencing token: greater than every earlier grant's of this lock. Send it with every write, and let the
    /// store refuse a lower one than it has seen.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on an engine that has no tokens.
    pub fn token(&self) -> Result<Token> {
        self.tenure.token().ok_or_else(|| {
            let engine = self.tenure.core().engine.guarantees().engine;
            Error::new(ErrorKind::Unsupported, format!("{engine} has no fencing tokens")).about(self.name())
        })
    }

    /// Whether the lock is held for certain at this instant. Reads the clock every time.
    ///
    /// A check followed by a write is not protected by it: between the two, any process can be paused. Only a store
    /// that checks the token is.
    pub fn is_certain(&self) -> bool {
        self.tenure.hold().loss().is_none()
    }

    /// How much of the lease is left if no renewal succeeds from here on; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.tenure.hold().look(|lease, now| match lease.loss(now) {
            Some(_) => Duration::ZERO,
            None => lease.deadline().since(now),
        })
    }

    /// When the lease ends if no renewal succeeds from here on; the same after a loss, when it may lie in the past.
    pub fn lease_end(&self) -> Moment {
        self.tenure.hold().look(|lease, _| lease.deadline())
    }

    /// Resolves when the lock is lost, before its lease can run out. Never resolves because of a release.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let guard = client.lock("report").acquire().await?;
    /// tokio::select! {
    ///     loss = guard.lost() => eprintln!("stopped: {loss}"),
    ///     () = async { /* the work */ } => guard.release().await?,
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> Loss {
        self.tenure.hold().lost().await
    }

    /// Gives the lock back, and returns when the engine has answered.
    ///
    /// # Guarantees
    /// Never touches a later holder, also when this guard was lost long ago.
    ///
    /// # Cancel safety
    /// Dropped half-way, the release goes on in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if the lock was no longer this guard's. Otherwise what the engine says; the release is
    /// then repeated in the background until it is answered or the lease is over.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// client.lock("a").acquire().await?.release().await?;
    /// assert!(client.lock("a").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<()> {
        let name = self.name().clone();
        let loss = self.tenure.hold().loss();
        let answer = self.tenure.release().await.map_err(|error| error.about(&name))?;
        match (answer, loss) {
            (Released::Freed, None) => Ok(()),
            (_, loss) => {
                let why = loss.unwrap_or(Loss::Removed);
                Err(Error::new(ErrorKind::Lost, format!("it was lost before its release: {why}"))
                    .about(&name))
            }
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("token", &self.tenure.token())
            .finish_non_exhaustive()
    }
}
