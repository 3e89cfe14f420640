//! A lock that a few may hold at once.

use crate::engine::Mode;
use crate::{Client, Error, ErrorKind, Lock};

impl Client {
    /// Describes one of `permits` permits: a lock that so many guards may hold at once, in all clients together.
    ///
    /// # Guarantees
    /// Never more than `permits` guards call themselves certain. Each has a lease of its own: the permit of a holder that
    /// died comes back alone, and takes no other with it. Clients are served in the order in which they came. Tokens rise
    /// from grant to grant, but several are held at once: they tell who came later, not who alone may write.
    ///
    /// # Errors
    /// Acquiring is [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for no permits at all, and for another number than
    /// those who hold or wait have named; [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where
    /// [`Guarantees::permits`](crate::Guarantees::permits) says no.
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
            0 => lock.reject(Error::new(ErrorKind::Invalid, "0 permits let nobody in; name at least 1")),
            _ => lock,
        }
    }
}
