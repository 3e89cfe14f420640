//! What is given back when it is dropped, on whatever thread that happens.

use tokio::runtime::Handle;

use super::driver::Driver;

/// A guard of the async API, dropped where it finds a runtime.
pub(super) struct Kept<G> {
    /// `None` once it is released.
    inner: Option<G>,
    pub(super) driver: Driver,
}

impl<G> Kept<G> {
    pub(super) fn new(inner: G, driver: Driver) -> Self {
        Self { inner: Some(inner), driver }
    }

    /// For its release.
    pub(super) fn take(&mut self) -> Option<G> {
        self.inner.take()
    }
}

impl<G> Drop for Kept<G> {
    fn drop(&mut self) {
        // At the end of a thread there may be nothing left to enter with, and the client's own thread does the work.
        let ending = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        let _inside = (!ending).then(|| self.driver.enter());
        self.inner = None;
    }
}

impl<G: std::fmt::Debug> std::fmt::Debug for Kept<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
