//! The reference to the client in every public value. The drop of the last one waits for outstanding
//! releases.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::core::{Core, defaults};

/// A reference to a client. Every public value that belongs to the client has one: clients, locks, guards,
/// cells.
///
/// Background work refers to the [`Core`] itself, so the last handle is the application's last reference. Its
/// drop waits for the outstanding releases, because the process may be about to end.
#[derive(Clone)]
pub(crate) struct ClientHandle(Arc<OpenClient>);

struct OpenClient {
    core: Arc<Core>,
    /// In microseconds.
    drop_timeout: AtomicU64,
}

impl ClientHandle {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let drop_timeout = AtomicU64::new(micros(defaults::DROP_TIMEOUT));
        Self(Arc::new(OpenClient { core, drop_timeout }))
    }

    /// Sets how long the drop of the last handle may wait.
    pub(crate) fn set_drop_timeout(&self, timeout: Duration) {
        self.0.drop_timeout.store(micros(timeout), Ordering::Relaxed);
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Deref for ClientHandle {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.0.core
    }
}

impl Drop for OpenClient {
    fn drop(&mut self) {
        // A fork has nothing to release. A mutex may be locked there by a thread that does not exist.
        if !self.core.is_a_copy() {
            let timeout = Duration::from_micros(*self.drop_timeout.get_mut());
            self.core.background.settle(timeout);
        }
    }
}
