//! A leadership: an election that was won.

use crate::{Error, Guard, Held, Loss, Result};

/// A leadership, until it is resigned, dropped or lost. Returned by
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

    /// The number of this term: greater than the terms of all earlier leaders. Send it with every request
    /// that must not come from a former leader.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether it leads for certain at this instant.
    pub fn is_certain(&self) -> bool {
        self.guard.is_certain()
    }

    /// Resolves when the leadership is lost, with the reason. A resignation does not resolve it.
    ///
    /// # Guarantees
    /// As [`Held::lost`].
    ///
    /// # Cancel safety
    /// May be dropped at any time, and called again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let leading = client.election("main").campaign("one").await?;
    /// tokio::select! {
    ///     loss = leading.lost() => eprintln!("stopped: {loss}"),
    ///     () = async { /* the work */ } => leading.resign().await?,
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> Loss {
        self.guard.lost().await
    }

    /// A view of the lock of the election.
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Runs `work` while it leads, as [`Lock::run`](crate::Lock::run).
    ///
    /// # Guarantees
    /// As [`Lock::run`](crate::Lock::run).
    ///
    /// # Cancel safety
    /// When it is dropped, the work is dropped first. The leadership is then resigned in the background.
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

    /// Resigns, so that the next candidate leads.
    ///
    /// # Guarantees
    /// As [`Guard::release`].
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

    /// The lock of the election, for code that works with guards.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}
