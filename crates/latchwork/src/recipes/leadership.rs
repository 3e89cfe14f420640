//! To lead.

use crate::{Error, Guard, Held, Loss, Result};

/// This one leads, until it resigns, is dropped, or is told that it does not any more. Made by
/// [`Election::campaign`](crate::Election::campaign).
#[derive(Debug)]
#[must_use = "a leader that is dropped resigns"]
pub struct Leadership {
    guard: Guard,
    term: u64,
}

impl Leadership {
    pub(super) fn new(guard: Guard, term: u64) -> Self {
        Self { guard: guard.of_election(), term }
    }

    /// The number of this term: greater than that of every earlier leader. Send it along with everything that must not come
    /// from a former one.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether it surely leads now.
    pub fn is_certain(&self) -> bool {
        self.guard.is_certain()
    }

    /// Ends when it does not lead any more, and says why. Never after it resigned.
    ///
    /// # Cancel safety
    /// Only waits; may be dropped at any time.
    pub async fn lost(&self) -> Loss {
        self.guard.lost().await
    }

    /// A view of the lock that makes it leader.
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Does `work` while it leads, as [`Lock::run`](crate::Lock::run) does.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work first and then resigns in the background.
    ///
    /// # Errors
    /// As [`Lock::run`](crate::Lock::run).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let leading = client.election("main").campaign("one").await?;
    /// let served = leading.run(async |held| Ok::<_, latchwork::Error>(held.is_certain())).await?;
    /// assert!(served);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E: From<Error>>(self, work: impl AsyncFnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        self.guard.run(work).await
    }

    /// Lets the next one lead.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Examples
    /// As [`Client::election`](crate::Client::election).
    pub async fn resign(self) -> Result<()> {
        self.guard.release().await
    }

    /// The lock that makes it leader, for code that works with guards.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}
