//! A held lock, for code without async.

use std::ops::Deref;
use std::time::Duration;

use tokio::runtime::Handle;

use super::driver::Driver;
use crate::{Held, Loss, Result};

/// As [`latchwork::Guard`](crate::Guard), with calls that block.
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    /// `None` once it is released.
    inner: Option<crate::Guard>,
    held: Held,
    driver: Driver,
}

impl Guard {
    pub(super) fn new(inner: crate::Guard, driver: Driver) -> Self {
        Self { held: inner.held(), inner: Some(inner), driver }
    }

    /// A view to give to the work that this lock protects.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Waits for the loss of the lock, at most this long.
    pub fn lost(&self, within: Duration) -> Option<Loss> {
        self.driver.block_on(async { tokio::time::timeout(within, self.held.lost()).await.ok() })
    }

    /// Gives the lock back, as [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    /// As there.
    pub fn release(mut self) -> Result<()> {
        match self.inner.take() {
            Some(guard) => self.driver.block_on(guard.release()),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // At the end of a thread there may be nothing left to enter with, and the client's own thread does the work.
        let ending = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        let _inside = (!ending).then(|| self.driver.enter());
        self.inner = None;
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
