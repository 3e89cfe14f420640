//! Guards of the async API that may be dropped on any thread.

use tokio::runtime::Handle;

use super::runtime_thread::RuntimeThread;

/// A guard of the async API, dropped inside a runtime.
pub(super) struct DropInRuntime<G> {
    /// `None` once it is released.
    inner: Option<G>,
    pub(super) thread: RuntimeThread,
}

impl<G> DropInRuntime<G> {
    pub(super) fn new(inner: G, thread: RuntimeThread) -> Self {
        Self { inner: Some(inner), thread }
    }

    /// Takes the guard out, to release it.
    pub(super) fn take(&mut self) -> Option<G> {
        self.inner.take()
    }
}

impl<G> Drop for DropInRuntime<G> {
    fn drop(&mut self) {
        // While a thread exits, its runtime context may be destroyed. The client's own thread then sends the
        // release.
        let ending = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        let _inside = (!ending).then(|| self.thread.enter());
        self.inner = None;
    }
}

impl<G: std::fmt::Debug> std::fmt::Debug for DropInRuntime<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
