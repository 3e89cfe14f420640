//! The measurement window, on the clock that all processes share.

use std::time::Duration;

use latchwork::clock::{Clock, Moment};

/// A measurement window. Times within it are nanoseconds since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    start: Moment,
    pub(crate) length: u64,
}

impl Window {
    pub(crate) fn new(start: Moment, millis: u64) -> Self {
        Self { start, length: millis * 1_000_000 }
    }

    pub(crate) fn now(&self) -> u64 {
        let since = Clock::boottime().now().since(self.start);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Blocks until the window opens, so that all processes begin together.
    pub(crate) fn wait_for_start(&self) {
        let left = self.start.since(Clock::boottime().now());
        if left > Duration::ZERO {
            std::thread::sleep(left);
        }
    }
}
