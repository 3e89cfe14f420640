//! Requests whose answers nobody waited for, long after they were sent: the server may hang.

use std::time::Duration;

use crate::clock::{Clock, Moment};

/// Whoever gives up waiting after so long does not trust the connection any more.
const SUSPICIOUS: Duration = Duration::from_millis(900);

/// A request under way. Dropped late and unheard, it hangs up.
pub(super) struct Unheard<F: Fn()> {
    since: Moment,
    hang_up: F,
}

impl<F: Fn()> Unheard<F> {
    /// Of a request that is sent now.
    pub(super) fn of(hang_up: F) -> Self {
        Self { since: Clock::boottime().now(), hang_up }
    }

    /// The answer is there.
    pub(super) fn heard(self) {
        std::mem::forget(self);
    }
}

impl<F: Fn()> Drop for Unheard<F> {
    fn drop(&mut self) {
        if Clock::boottime().now().since(self.since) > SUSPICIOUS {
            (self.hang_up)();
        }
    }
}
