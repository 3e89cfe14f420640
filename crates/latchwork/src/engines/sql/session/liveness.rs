//! When requests were sent on a connection, and which of them were answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Moment};
use crate::core::defaults::{less_drift, stop_margin};

/// The state of a connection's life, shared by all threads. Times are in microseconds.
pub(super) struct Liveness {
    pub(super) ttl: Duration,
    /// How long the server surely keeps the connection after it was sent a request that it answered.
    valid_for: Duration,
    /// The connection counts as expired this long before the end of that time.
    margin: Duration,
    closed: AtomicBool,
    /// When the newest answered request was sent.
    acknowledged: AtomicU64,
    /// When the newest request was sent.
    newest_sent: AtomicU64,
    /// When a request was sent after which no reply arrived. Zero: all were answered.
    unanswered_since: AtomicU64,
}

impl Liveness {
    pub(super) fn new(ttl: Duration) -> Arc<Self> {
        let [newest_sent, unanswered_since] = [0; 2].map(AtomicU64::new);
        // Opening the connection begins with a request.
        let acknowledged = AtomicU64::new(now().as_micros());
        let (valid_for, margin) = (less_drift(ttl), stop_margin(ttl, None));
        let closed = AtomicBool::new(false);
        Arc::new(Self { ttl, valid_for, margin, closed, acknowledged, newest_sent, unanswered_since })
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// A request is about to be sent. Returns the time for [`Liveness::answered`].
    pub(super) fn sent(&self) -> Moment {
        let sent = now();
        self.newest_sent.fetch_max(sent.as_micros(), Ordering::SeqCst);
        self.begin_unanswered(sent.as_micros());
        sent
    }

    fn begin_unanswered(&self, sent: u64) {
        let _ = self.unanswered_since.compare_exchange(0, sent, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A request was answered. Replies arrive in the order of requests, so all earlier ones were answered as
    /// well.
    pub(super) fn answered(&self, sent: Moment) {
        let answered = self.acknowledged.fetch_max(sent.as_micros(), Ordering::AcqRel).max(sent.as_micros());
        self.unanswered_since.store(0, Ordering::SeqCst);
        // Load after the store (SeqCst): a concurrent `sent` is either seen here or sees the reset.
        let newest_sent = self.newest_sent.load(Ordering::SeqCst);
        if newest_sent > answered {
            self.begin_unanswered(newest_sent);
        }
    }

    pub(super) fn has_unanswered(&self) -> bool {
        self.unanswered_since.load(Ordering::Acquire) != 0
    }

    pub(super) fn unanswered_for(&self) -> Duration {
        match self.unanswered_since.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            since => now().since(Moment::from_micros(since)),
        }
    }

    /// When the newest answered request was sent.
    pub(super) fn acknowledged(&self) -> Moment {
        Moment::from_micros(self.acknowledged.load(Ordering::Acquire))
    }

    /// Until when the server surely keeps the connection. The server counts its silence from the end of a
    /// request, which is later than the time at which it was sent.
    pub(super) fn valid_until(&self) -> Moment {
        self.acknowledged().after(self.valid_for)
    }

    /// Whether an answer has been missing for a while, and the server may have ended the connection.
    pub(super) fn is_expired(&self) -> bool {
        // First without the clock: it need not be read while no answer is missing.
        self.unanswered_for() > self.ttl / 4 && now().after(self.margin) > self.valid_until()
    }

    /// How long ago the newest answered request was sent.
    pub(super) fn acknowledged_for(&self) -> Duration {
        now().since(self.acknowledged())
    }
}

fn now() -> Moment {
    Clock::boottime().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_one_request_is_not_an_answer_to_later_ones() {
        let liveness = Liveness::new(Duration::from_secs(3));
        let [first, second, third] = [1_000_000, 1_000_001, 1_000_002].map(Moment::from_micros);
        for sent in [first, second, third] {
            liveness.newest_sent.fetch_max(sent.as_micros(), Ordering::SeqCst);
            liveness.begin_unanswered(sent.as_micros());
        }
        liveness.acknowledged.store(0, Ordering::SeqCst);
        liveness.answered(first);
        assert!(liveness.has_unanswered(), "two are under way");
        liveness.answered(third);
        assert!(!liveness.has_unanswered(), "the second was answered before it");
        liveness.answered(second);
        assert!(!liveness.has_unanswered());
    }
}
