//! Readers and writers.

use crate::engine::Mode;
use crate::{Client, Lock};

/// A lock that many readers or one writer may hold. Created by [`Client::rw_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `read` or `write` is acquired"]
pub struct RwLock {
    inner: Lock,
}

impl Client {
    /// Describes a lock that many readers or one writer may hold. Nothing is sent before a side of it is
    /// acquired.
    ///
    /// It is the same lock as [`Client::lock`] of this name, which excludes both sides.
    ///
    /// # Guarantees
    /// No writer holds beside a reader or another writer. Clients are served in the order of their arrival: a
    /// waiting writer blocks the readers behind it, and readers between two writers are admitted together.
    ///
    /// Readers of one client share one claim, with one token. Readers that arrive within
    /// [`pass_for`](Lock::pass_for) of its grant join it, unless a task of this client waits to write. After
    /// that it accepts no more readers, so that a writer of another client waits for at most one reader's
    /// hold and `pass_for`. The next reader waits until the shared claim is released, for at most `pass_for`,
    /// and then sends the next claim.
    ///
    /// A guard cannot change sides. Two readers that both wait to become the writer would deadlock, and no
    /// engine can turn a writer into a reader in one step, without a gap for another writer. Release the
    /// guard and acquire the other side: the token tells whether another writer held the lock in between.
    ///
    /// # Errors
    /// `acquire` of a side fails with [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where
    /// [`Guarantees::read_write`](crate::Guarantees::read_write) is false.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let catalogue = client.rw_lock("catalogue");
    /// let (one, another) = (catalogue.read().acquire().await?, catalogue.read().acquire().await?);
    /// assert!(catalogue.write().try_acquire().await?.is_none());
    /// one.release().await?;
    /// another.release().await?;
    /// let writer = catalogue.write().ttl(Duration::from_secs(10)).acquire().await?;
    /// assert!(catalogue.read().try_acquire().await?.is_none());
    /// # drop(writer); Ok(()) }
    /// ```
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock { inner: self.lock(name) }
    }
}

impl RwLock {
    /// The side that many readers may hold at once.
    pub fn read(&self) -> Lock {
        self.inner.clone().mode(Mode::Read)
    }

    /// The side that one writer holds alone.
    pub fn write(&self) -> Lock {
        self.inner.clone().mode(Mode::Write)
    }
}
