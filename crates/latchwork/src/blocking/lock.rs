//! A lock that is described, and not held yet, for code without async.

use std::time::Duration;

use super::Guard;
use super::runtime_thread::RuntimeThread;
use crate::engine::Lifetime;
use crate::forward_options::forward_options;
use crate::{Error, Held, Result};

/// As [`latchwork::Lock`](crate::Lock), with calls that block.
#[derive(Clone)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct Lock {
    inner: crate::Lock,
    thread: RuntimeThread,
}

impl Lock {
    pub(super) fn new(inner: crate::Lock, thread: RuntimeThread) -> Self {
        Self { inner, thread }
    }

    forward_options! {
        all,
        hold_at_least: Duration;
        owner: impl AsRef<str>;
        lifetime: Lifetime;
    }

    /// As [`Lock::fenced`](crate::Lock::fenced).
    pub fn fenced(mut self) -> Self {
        self.inner = self.inner.fenced();
        self
    }

    /// Acquires the lock if it is free, as [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        let guard = self.thread.block_on(self.inner.try_acquire())?;
        Ok(guard.map(|guard| Guard::new(guard, self.thread.clone())))
    }

    /// Acquires the lock, and waits for it up to the limit of [`Lock::wait`], as
    /// [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn acquire(&self) -> Result<Guard> {
        let guard = self.thread.block_on(self.inner.acquire())?;
        Ok(Guard::new(guard, self.thread.clone()))
    }

    /// Runs `work` while the lock is held. A thread cannot be stopped from outside, so long work should check
    /// [`Held::is_certain`] from time to time.
    ///
    /// # Errors
    /// The error of `work`. Otherwise, converted into the error type of `work`, the errors of
    /// [`Lock::acquire`], and [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before its
    /// release.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let client = latchwork::blocking::connect("memory:")?;
    /// let token = client.lock("report").run(|held| held.token())?;
    /// # let _ = token; Ok(()) }
    /// ```
    pub fn run<T, E: From<Error>>(&self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        self.acquire()?.run(work)
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
