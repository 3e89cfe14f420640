//! A held lock, for code without async.

use std::ops::Deref;
use std::time::Duration;

use super::drop_in_runtime::DropInRuntime;
use super::runtime_thread::RuntimeThread;
use crate::{Error, ErrorKind, Held, Loss, Result};

/// As [`latchwork::Guard`](crate::Guard), with calls that block.
#[must_use = "dropping a guard releases the lock"]
#[derive(Debug)]
pub struct Guard {
    inner: DropInRuntime<crate::Guard>,
    held: Held,
}

impl Guard {
    pub(super) fn new(inner: crate::Guard, thread: RuntimeThread) -> Self {
        Self { held: inner.held(), inner: DropInRuntime::new(inner, thread) }
    }

    /// Runs `work`, and releases the lock.
    pub(super) fn run<T, E: From<Error>>(self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        let done = work(self.held());
        match self.release() {
            Err(error) if done.is_ok() && error.kind() == ErrorKind::Lost => Err(error.into()),
            _ => done,
        }
    }

    /// A view of the lock, for the work that it protects.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Waits for the loss of the lock, at most this long. A release is no loss.
    pub fn lost(&self, within: Duration) -> Option<Loss> {
        self.inner.thread.block_on(async { tokio::time::timeout(within, self.held.lost()).await.ok() })
    }

    /// Releases the lock, as [`Guard::release`](crate::Guard::release).
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

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}
