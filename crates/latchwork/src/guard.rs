//! A held lock.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::core::{ClientHandle, HeldClaim};
use crate::engine::Released;
use crate::{Error, ErrorKind, Held, Loss, Result};

/// A held lock. Renewed in the background while it lives; released by [`Guard::release`], or when it is
/// dropped. The drop sends the release and does not wait for the reply, unless it drops the last reference to
/// its client: see [`Client`](crate::Client#dropping). Derefs to [`Held`], which describes the lock.
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    /// Dropped first, so that the views of a nested guard see its release while other guards of its owner
    /// remain.
    own: Option<Arc<()>>,
    claim: HeldClaim,
    held: Held,
    /// Dropped last: it waits for the release that the drop of the other fields sends.
    client: ClientHandle,
}

impl Guard {
    pub(crate) fn new(claim: HeldClaim, client: ClientHandle) -> Self {
        let own = matches!(claim, HeldClaim::Shared(_)).then(Arc::default);
        let held = Held::new(&claim, own.as_ref().map(Arc::downgrade));
        Self { own, claim, held, client }
    }

    /// Makes the errors of this guard name an election.
    pub(crate) fn of_election(mut self) -> Self {
        self.held = self.held.of_election();
        self
    }

    #[cfg(test)]
    pub(crate) fn into_held_claim(self) -> HeldClaim {
        self.claim
    }

    /// Runs `work` and releases the lock, or drops the work when the lock is lost.
    pub(crate) async fn run<T, E: From<Error>>(
        self,
        work: impl AsyncFnOnce(Held) -> Result<T, E>,
    ) -> Result<T, E> {
        let held = self.held();
        let done = tokio::select! {
            // The loss is polled first: work that is ready at the same time may have been ready too late.
            biased;
            why = held.lost() => return Err(held.lost_error(why).into()),
            done = work(self.held()) => done,
        };
        match self.release().await {
            Err(error) if done.is_ok() && error.kind() == ErrorKind::Lost => Err(error.into()),
            _ => done,
        }
    }

    /// A view of the lock, for the work that it protects.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Releases the lock, and returns when the engine has replied. Of several guards of one owner, the last
    /// one releases the lock.
    ///
    /// # Guarantees
    /// Never affects a later holder, even if this guard was lost long ago.
    ///
    /// # Cancel safety
    /// When it is dropped before it returns, the release continues in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if this guard no longer held the lock. Otherwise the
    /// errors of the engine; the release is then repeated in the background until the engine replies or the
    /// lease is over.
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
        let Self { own, claim, held, client } = self;
        drop(own);
        let clock = client.clock;
        match claim.release().await {
            (Err(error), _) => {
                let now = clock.now();
                Err(held.about(error.may_be_held(held.server_lease_over(now), now)))
            }
            (Ok(Released::Freed), None) => Ok(()),
            (Ok(_), loss) => Err(held.lost_error(loss.unwrap_or(Loss::Removed))),
        }
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("held", &self.held).finish_non_exhaustive()
    }
}
