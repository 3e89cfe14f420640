//! Retires a connection on which a caller gave up waiting for a reply: the server may hang, or be cut off
//! without a word.

use super::deadline::SLOW_REPLY;
use crate::clock::{Clock, Moment};

/// Held while a request waits for its reply. Dropped before the reply came, it retires the connection.
#[must_use]
pub(crate) struct AbandonGuard<F: Fn()> {
    /// `None`: however short the wait was.
    slow_since: Option<Moment>,
    retire: F,
}

impl<F: Fn()> AbandonGuard<F> {
    /// For callers that give up only after the longest time that a request may take.
    pub(crate) fn retire(retire: F) -> Self {
        Self { slow_since: None, retire }
    }

    /// For callers that may cancel at any time. A quick cancel says nothing about the connection. After
    /// [`SLOW_REPLY`] without a reply the connection is retired.
    pub(crate) fn retire_if_slow(retire: F) -> Self {
        Self { slow_since: Some(Clock::boottime().now()), retire }
    }

    /// The reply came.
    pub(crate) fn answered(self) {
        std::mem::forget(self);
    }
}

impl<F: Fn()> Drop for AbandonGuard<F> {
    fn drop(&mut self) {
        if self.slow_since.is_none_or(|since| Clock::boottime().now().since(since) > SLOW_REPLY) {
            (self.retire)();
        }
    }
}
