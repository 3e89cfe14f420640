//! Whether a connection is alive, for those who use it and for what drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mailbox::Mailbox;

/// One connection's. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Pulse {
    closed: AtomicBool,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Lives in the connection's driver. Dropped with it: also when its runtime ends.
pub(super) struct Driven(pub(super) Arc<Pulse>);

impl Pulse {
    /// Of a connection that brings news into this mailbox.
    pub(super) fn new(mailbox: &Arc<Mailbox>) -> Arc<Self> {
        Arc::new(Self { closed: AtomicBool::new(false), mailbox: mailbox.clone() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Maybe some news went with it: everybody asks.
    pub(super) fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.mailbox.recheck_all();
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.close();
    }
}
