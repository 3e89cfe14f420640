//! Several locks, acquired together: all or none.

use super::join::{join_all, select_all};
use super::multi_guard::{MultiGuard, MultiHeld};
use crate::core::WaitUntil;
use crate::forward_options::forward_options;
use crate::{Client, Error, ErrorKind, Guard, Lock, Result};

/// Several locks that are described, and not held yet. Created by [`Client::multi_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct MultiLock {
    /// The options of each lock.
    inner: Lock,
    /// Sorted, without duplicates.
    names: Vec<String>,
}

impl Client {
    /// Describes several locks that are acquired together. Nothing is sent before they are acquired.
    ///
    /// They are acquired in the order of their names, each name once, so that two calls never deadlock. A
    /// program that also acquires single locks while it holds these should keep to that order.
    pub fn multi_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiLock {
        let mut names: Vec<_> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        names.sort();
        names.dedup();
        let inner = self.lock(names.first().map_or("", String::as_str));
        MultiLock { inner, names }
    }
}

impl MultiLock {
    forward_options! { all, }

    /// Acquires all of them if all are free.
    ///
    /// # Guarantees
    /// All or none: if one is busy, those acquired before it are released before this returns.
    ///
    /// # Cancel safety
    /// May be dropped at any time. The locks that were acquired are released in the background.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`]. Nothing is sent if a name is invalid, or without names.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let busy = client.lock("b").acquire().await?;
    /// assert!(client.multi_lock(["a", "b"]).try_acquire().await?.is_none());
    /// assert!(client.lock("a").try_acquire().await?.is_some(), "it was released");
    /// # drop(busy); Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut guards = Vec::with_capacity(self.names.len());
        for lock in self.locks()? {
            match lock.try_acquire().await {
                Ok(Some(guard)) => guards.push(guard),
                Ok(None) => {
                    release_all(guards).await;
                    return Ok(None);
                }
                Err(error) => {
                    release_all(guards).await;
                    return Err(error);
                }
            }
        }
        complete(guards).await.map(Some)
    }

    /// Acquires all of them. The limit of [`Lock::wait`] applies to all together.
    ///
    /// # Guarantees
    /// All or none: on return all locks are held, or none is.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`], for each.
    ///
    /// # Errors
    /// As [`Lock::acquire`], about the first lock that failed; and [`ErrorKind::Lost`] if one was lost during
    /// the wait for the next.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let accounts = client.multi_lock(["account/2", "account/1"]).wait(Duration::from_secs(5));
    /// let both = accounts.acquire().await?;
    /// assert_eq!(both.each()[0].name().as_str(), "account/1");
    /// println!("writes to account/2 carry token {}", both.token("account/2")?);
    /// both.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let (locks, wait) = (self.locks()?, self.inner.wait_until());
        let mut guards = Vec::with_capacity(locks.len());
        for lock in &locks {
            match next(lock, wait, &guards).await {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    release_all(guards).await;
                    return Err(error);
                }
            }
        }
        complete(guards).await
    }

    /// Runs `work` while all of them are held. The work is dropped when any is lost.
    ///
    /// # Guarantees
    /// As [`Lock::run`], for all of them.
    ///
    /// # Cancel safety
    /// When it is dropped, the work is dropped first. The locks are then released in the background.
    ///
    /// # Errors
    /// As [`Lock::run`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let count = client.multi_lock(["a", "b"]).run(async |held| latchwork::Result::Ok(held.each().len())).await?;
    /// assert_eq!(count, 2);
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(MultiHeld) -> Result<T, E>,
    ) -> Result<T, E> {
        let guard = self.acquire().await?;
        let held = guard.held();
        let done = tokio::select! {
            biased;
            (at, why) = select_all(held.each().iter().map(crate::Held::lost)) => {
                return Err(held.each()[at].lost_error(why).into());
            }
            done = work(guard.held()) => done,
        };
        match guard.release().await {
            Err(error) if done.is_ok() && error.kind() == ErrorKind::Lost => Err(error.into()),
            _ => done,
        }
    }

    /// The locks, if all names and options are valid.
    fn locks(&self) -> Result<Vec<Lock>> {
        if self.names.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "no lock was named; name at least one"));
        }
        let locks: Vec<_> = self.names.iter().map(|name| self.inner.named(name)).collect();
        locks.iter().try_for_each(|lock| lock.checked().map(drop))?;
        Ok(locks)
    }
}

/// Acquires the next lock, unless one of the held ones is lost meanwhile.
async fn next(lock: &Lock, wait: WaitUntil, guards: &[Guard]) -> Result<Guard> {
    tokio::select! {
        biased;
        (at, why) = select_all(guards.iter().map(|guard| guard.lost())) => Err(guards[at].lost_error(why)),
        guard = lock.acquire_within(wait) => guard,
    }
}

/// A guard of all locks, unless one was lost before the last one was acquired.
async fn complete(guards: Vec<Guard>) -> Result<MultiGuard> {
    let lost = guards.iter().find_map(|guard| Some(guard.lost_error(guard.loss()?)));
    match lost {
        None => Ok(MultiGuard::new(guards)),
        Some(error) => {
            release_all(guards).await;
            Err(error)
        }
    }
}

/// Releases the locks before the error is returned. A release without a reply is repeated in the background.
async fn release_all(guards: Vec<Guard>) {
    drop(join_all(guards.into_iter().map(Guard::release)).await);
}
