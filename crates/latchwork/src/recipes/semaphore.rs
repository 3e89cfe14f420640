//! Permits.

use crate::engine::Mode;
use crate::{Client, Error, ErrorKind, Lock};

impl Client {
    /// Describes one of `permits` permits: a lock that this many guards may hold at once, over all clients.
    /// Nothing is sent before it is acquired.
    ///
    /// # Guarantees
    /// At most `permits` guards report a certain hold. Each permit has a lease of its own: the death of a
    /// holder frees its permit, and no other. Clients are served in the order of their arrival. Tokens rise
    /// from grant to grant, but several are held at once: a token orders the grants, and does not identify a
    /// single writer.
    ///
    /// # Errors
    /// `acquire` fails with [`ErrorKind::Invalid`] for zero permits, and for another number than that of the
    /// present holders and waiters; with [`ErrorKind::Unsupported`] where
    /// [`Guarantees::permits`](crate::Guarantees::permits) is false.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let upload = client.semaphore("uploads", 2);
    /// let (one, two) = (upload.acquire().await?, upload.acquire().await?);
    /// assert!(upload.try_acquire().await?.is_none());
    /// one.release().await?;
    /// assert!(upload.try_acquire().await?.is_some());
    /// # drop(two); Ok(()) }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Lock {
        let lock = self.lock(name).mode(Mode::Permit { of: permits });
        match permits {
            0 => lock.reject(Error::new(ErrorKind::Invalid, "0 permits admit no holder; name at least 1")),
            _ => lock,
        }
    }
}
