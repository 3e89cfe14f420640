//! Many readers, or one writer.

use crate::engine::Mode;
use crate::{Client, Lock};

/// A lock that many may hold to read, or one to write. Made by [`Client::rw_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `read` or `write` is acquired"]
pub struct RwLock {
    inner: Lock,
}

impl Client {
    /// Describes a lock that many may hold to read, or one to write; nothing is sent before a side of it is acquired.
    ///
    /// It is the same lock as [`Client::lock`] of this name, which excludes both sides.
    ///
    /// # Guarantees
    /// No writer holds beside a reader or another writer. Clients are served in the order in which they came: a writer that
    /// waits holds back the readers that come after it, and readers between two writers go in together.
    ///
    /// Readers of one client hold one claim together, with one token: those that come within
    /// [`pass_for`](Lock::pass_for) of its grant join it, unless a task of this client waits to write. Then it runs out, so
    /// that a writer elsewhere has its turn one reader's hold and `pass_for` later at most. The next reader waits until it
    /// has run out, for `pass_for` at most, and fetches the next claim.
    ///
    /// A guard cannot change sides. Two readers that both wait to become the writer would wait for each other; and no
    /// engine here can make a writer a reader in one step, with no gap for another writer. Release it and acquire the
    /// other side: the token tells whether somebody wrote in between.
    ///
    /// # Errors
    /// Acquiring a side is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where
    /// [`Guarantees::read_write`](crate::Guarantees::read_write) says no.
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
    /// The side that many may hold at once.
    pub fn read(&self) -> Lock {
        self.inner.clone().mode(Mode::Read)
    }

    /// The side that one holds alone.
    pub fn write(&self) -> Lock {
        self.inner.clone().mode(Mode::Write)
    }
}
