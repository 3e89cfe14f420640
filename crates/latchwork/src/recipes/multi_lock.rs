//! Several locks at once: all or none.

use super::multi_guard::{MultiGuard, MultiHeld};
use super::together::{all_of, first_of};
use crate::core::WaitUntil;
use crate::wishes::wishes;
use crate::{Client, Error, ErrorKind, Guard, Lock, Result};

/// Several locks, described and not yet held. Made by [`Client::multi_lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct MultiLock {
    /// The terms of each.
    inner: Lock,
    /// In order, each once.
    names: Vec<String>,
}

impl Client {
    /// Describes several locks that are taken together; nothing is sent before they are acquired.
    ///
    /// They are taken in the order of their names, each name once, whatever the order they are given in: two such calls
    /// never wait for each other. Who also takes single locks while it holds these should keep to that order.
    pub fn multi_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiLock {
        let mut names: Vec<_> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        names.sort();
        names.dedup();
        MultiLock { inner: self.lock(""), names }
    }
}

impl MultiLock {
    wishes! { all, }

    /// Takes all of them if all are free.
    ///
    /// # Guarantees
    /// All or none: what was had when one was found busy is given back before this returns.
    ///
    /// # Cancel safety
    /// May be dropped at any time; what was had is given back in the background.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`]; nothing is sent if any name is bad, or if there is none.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let busy = client.lock("b").acquire().await?;
    /// assert!(client.multi_lock(["a", "b"]).try_acquire().await?.is_none());
    /// assert!(client.lock("a").try_acquire().await?.is_some(), "none is left behind");
    /// # drop(busy); Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut guards = Vec::with_capacity(self.names.len());
        for lock in self.locks()? {
            match lock.try_acquire().await {
                Ok(Some(guard)) => guards.push(guard),
                Ok(None) => {
                    give_back(guards).await;
                    return Ok(None);
                }
                Err(error) => {
                    give_back(guards).await;
                    return Err(error);
                }
            }
        }
        complete(guards).await.map(Some)
    }

    /// Takes all of them, waiting as [`Lock::wait`] says: one limit for all together.
    ///
    /// # Guarantees
    /// All or none: on return all are held, or none is.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`], for each.
    ///
    /// # Errors
    /// As [`Lock::acquire`], about the lock that was not to be had; and [`ErrorKind::Lost`] if one was lost while this waited
    /// for the next.
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
                    give_back(guards).await;
                    return Err(error);
                }
            }
        }
        complete(guards).await
    }

    /// Does `work` while all of them are held. The work is dropped the moment any is lost.
    ///
    /// # Guarantees
    /// As [`Lock::run`], for all of them.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work first and then gives the locks back in the background.
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
            (at, why) = first_of(held.each().iter().map(crate::Held::lost)) => {
                return Err(held.each()[at].lost_error(why).into());
            }
            done = work(guard.held()) => done,
        };
        match guard.release().await {
            Err(error) if done.is_ok() && error.kind() == ErrorKind::Lost => Err(error.into()),
            _ => done,
        }
    }

    /// Each of them, once it is known that all can be asked for.
    fn locks(&self) -> Result<Vec<Lock>> {
        if self.names.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "no lock was named; name at least one"));
        }
        let locks: Vec<_> = self.names.iter().map(|name| self.inner.named(name)).collect();
        locks.iter().try_for_each(|lock| lock.checked().map(drop))?;
        Ok(locks)
    }
}

/// Waits for the next while those before it are held.
async fn next(lock: &Lock, wait: WaitUntil, guards: &[Guard]) -> Result<Guard> {
    tokio::select! {
        biased;
        (at, why) = first_of(guards.iter().map(|guard| guard.lost())) => Err(guards[at].lost_error(why)),
        guard = lock.acquire_within(wait) => guard,
    }
}

/// All were had; but the first may have been lost by the time the last came.
async fn complete(guards: Vec<Guard>) -> Result<MultiGuard> {
    let lost = guards.iter().find_map(|guard| Some(guard.lost_error(guard.loss()?)));
    match lost {
        None => Ok(MultiGuard::new(guards)),
        Some(error) => {
            give_back(guards).await;
            Err(error)
        }
    }
}

/// Before the caller learns that it has none; what is not answered is repeated in the background.
async fn give_back(guards: Vec<Guard>) {
    drop(all_of(guards.into_iter().map(Guard::release)).await);
}
