//! A lock, described and not yet held, for code without async.

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

    /// Takes the lock if it is free, as [`Lock::try_acquire`](crate::Lock::try_acquire).
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        let guard = self.thread.block_on(self.inner.try_acquire())?;
        Ok(guard.map(|guard| Guard::new(guard, self.thread.clone())))
    }

    /// Takes the lock, waiting for it as [`Lock::wait`] says, as [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Errors
    /// As there.
    pub fn acquire(&self) -> Result<Guard> {
        let guard = self.thread.block_on(self.inner.acquire())?;
        Ok(Guard::new(guard, self.thread.clone()))
    }

    /// Does `work` while the lock is held. Nobody can stop a thread from outside: long work looks at
    /// [`Held::is_certain`] from time to time.
    ///
    /// # Errors
    /// The work's own error; else, converted into the work's error type, those of [`Lock::acquire`], and
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock was lost before its release.
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
