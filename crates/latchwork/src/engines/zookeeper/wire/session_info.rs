//! The state that the handle of a session and its driver share.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};

/// The state that the handle of a session and its driver share.
#[derive(Default)]
pub(super) struct SessionInfo {
    id: AtomicI64,
    timeout_millis: AtomicU64,
    /// When the newest request that the leader answered was sent, in microseconds.
    acknowledged_micros: AtomicU64,
    /// Ends the pause before the next attempt to connect.
    pub(super) connect_now: Notify,
}

impl SessionInfo {
    /// Stores what the server has agreed to.
    pub(super) fn set_opened(&self, id: i64, timeout: Duration) {
        self.timeout_millis.store(timeout.as_millis() as u64, Ordering::Release);
        self.id.store(id, Ordering::Release);
    }

    pub(super) fn id(&self) -> i64 {
        self.id.load(Ordering::Acquire)
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_millis.load(Ordering::Acquire))
    }

    /// Notes that a request sent at this time was answered by the leader.
    pub(super) fn acknowledge(&self, sent: Moment) {
        self.acknowledged_micros.fetch_max(sent.as_micros(), Ordering::AcqRel);
    }

    pub(super) fn acknowledged(&self) -> Moment {
        Moment::from_micros(self.acknowledged_micros.load(Ordering::Acquire))
    }

    pub(super) fn now() -> Moment {
        Clock::boottime().now()
    }
}
