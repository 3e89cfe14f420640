//! Several locks, acquired together, for code without async.

use std::ops::Deref;
use std::time::Duration;

use super::drop_in_runtime::DropInRuntime;
use super::runtime_thread::RuntimeThread;
use crate::forward_options::forward_options;
use crate::{Error, ErrorKind, LockName, Loss, MultiHeld, Result};

/// As [`latchwork::MultiLock`](crate::MultiLock), with calls that block.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct MultiLock {
    inner: crate::MultiLock,
    thread: RuntimeThread,
}

impl MultiLock {
    pub(super) fn new(inner: crate::MultiLock, thread: RuntimeThread) -> Self {
        Self { inner, thread }
    }

    forward_options! { all, }

    /// Acquires all of them if all are free, as [`MultiLock::try_acquire`](crate::MultiLock::try_acquire).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let guard = self.thread.block_on(self.inner.try_acquire())?;
        Ok(guard.map(|guard| MultiGuard::new(guard, self.thread.clone())))
    }

    /// Acquires all of them, as [`MultiLock::acquire`](crate::MultiLock::acquire).
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let client = latchwork::blocking::connect("memory:")?;
    /// let both = client.multi_lock(["account/1", "account/2"]).acquire()?;
    /// assert!(both.is_certain());
    /// both.release()?;
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self) -> Result<MultiGuard> {
        let guard = self.thread.block_on(self.inner.acquire())?;
        Ok(MultiGuard::new(guard, self.thread.clone()))
    }

    /// Runs `work` while all of them are held, as [`Lock::run`](super::Lock::run).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn run<T, E: From<Error>>(&self, work: impl FnOnce(MultiHeld) -> Result<T, E>) -> Result<T, E> {
        let guard = self.acquire()?;
        let done = work(guard.held());
        match guard.release() {
            Err(error) if done.is_ok() && error.kind() == ErrorKind::Lost => Err(error.into()),
            _ => done,
        }
    }
}

/// As [`latchwork::MultiGuard`](crate::MultiGuard), with calls that block.
#[must_use = "dropping a guard releases its locks"]
#[derive(Debug)]
pub struct MultiGuard {
    inner: DropInRuntime<crate::MultiGuard>,
    held: MultiHeld,
}

impl MultiGuard {
    fn new(inner: crate::MultiGuard, thread: RuntimeThread) -> Self {
        Self { held: inner.held(), inner: DropInRuntime::new(inner, thread) }
    }

    /// A view of the locks, for the work that they protect.
    pub fn held(&self) -> MultiHeld {
        self.held.clone()
    }

    /// Waits for the loss of any of them, at most this long. A release is no loss.
    pub fn lost(&self, within: Duration) -> Option<(&LockName, Loss)> {
        self.inner.thread.block_on(async { tokio::time::timeout(within, self.held.lost()).await.ok() })
    }

    /// Releases all of them, as [`MultiGuard::release`](crate::MultiGuard::release).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn release(mut self) -> Result<()> {
        match self.inner.take() {
            Some(guard) => self.inner.thread.block_on(guard.release()),
            None => Ok(()),
        }
    }
}

impl Deref for MultiGuard {
    type Target = MultiHeld;

    fn deref(&self) -> &MultiHeld {
        &self.held
    }
}
