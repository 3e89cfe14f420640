//! Whether a connection is closed: shared by its users and the task that drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::waiter_table::WaiterTable;

/// A connection that is closed stays closed; its users open another.
pub(super) struct CloseFlag {
    closed: AtomicBool,
    pub(super) waiters: Arc<WaiterTable>,
}

/// Held by the task that drives the connection, and dropped with it, also when its runtime ends.
pub(super) struct ClosesOnDrop(pub(super) Arc<CloseFlag>);

impl CloseFlag {
    /// The flag of an open connection that delivers notifications to these waiters.
    pub(super) fn new(waiters: &Arc<WaiterTable>) -> Arc<Self> {
        Arc::new(Self { closed: AtomicBool::new(false), waiters: waiters.clone() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the connection. Every waiter claims again, because a notification may have been lost with it.
    pub(super) fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.waiters.recheck_all();
        }
    }
}

impl Drop for ClosesOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
