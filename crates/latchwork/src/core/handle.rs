//! A public value's reference to its client, and what the last of these does when it is dropped.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Core, defaults};

/// A reference to a client, in every public value that belongs to it: clients, locks, guards, cells.
///
/// Background work refers to the [`Core`] itself, so the last of these handles is all that the application has left. Its
/// drop waits for the releases that are outstanding: the process may be about to end.
#[derive(Clone)]
pub(crate) struct ClientHandle(Arc<Open>);

struct Open {
    core: Arc<Core>,
    /// In microseconds.
    drop_timeout: AtomicU64,
}

impl ClientHandle {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let drop_timeout = AtomicU64::new(micros(defaults::DROP_TIMEOUT));
        Self(Arc::new(Open { core, drop_timeout }))
    }

    /// How long the drop of the last handle may wait.
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

impl Drop for Open {
    fn drop(&mut self) {
        // A fork has nothing to release, and a mutex may be locked there by a thread that does not exist.
        if !self.core.is_a_copy() {
            let timeout = Duration::from_micros(*self.drop_timeout.get_mut());
            self.core.background.settle(timeout);
        }
    }
}
