//! A connection with its lease.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::liveness::Liveness;
use super::{Moving, SessionConnection};
use crate::Result;

/// A connection, and the time until which the server surely keeps it.
pub(super) struct LeasedConnection<C> {
    pub(super) connection: C,
    pub(super) liveness: Arc<Liveness>,
    pub(super) moving: Arc<Moving>,
}

impl<C: SessionConnection> LeasedConnection<C> {
    /// Sends a request, and records when it was sent and that it was answered.
    pub(super) async fn request<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let sent = self.liveness.sent();
        let answer = self.moving.moved(request).await;
        if answer.is_ok() {
            self.liveness.answered(sent);
        }
        answer
    }

    /// Whether it is closed. Closes it if its lease may have ended, and an answer has been missing for a
    /// while.
    pub(super) fn is_unusable(&self) -> bool {
        if self.liveness.is_expired() {
            self.close();
        }
        self.is_closed()
    }

    /// Whether a connection that waits in the server is closed or unanswered for too long. A wait takes a
    /// slice until it is answered.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_closed() || self.liveness.unanswered_for() > self.liveness.ttl * 2
    }

    fn is_closed(&self) -> bool {
        self.liveness.is_closed() || self.connection.is_closed()
    }

    /// Sends a heartbeat, unless a request younger than `max_age` was answered. Returns whether the
    /// connection surely lives.
    pub(super) async fn heartbeat(&self, max_age: Duration) -> bool {
        // Boxed: most heartbeats are not sent, and the others wait for the server anyway.
        self.liveness.acknowledged_for() < max_age
            || Box::pin(self.request(self.connection.heartbeat())).await.is_ok()
    }

    pub(super) fn close(&self) {
        self.liveness.close();
        self.moving.end();
    }
}

/// Nothing uses it any more, and locks that it may still hold must end.
impl<C> Drop for LeasedConnection<C> {
    fn drop(&mut self) {
        self.liveness.close();
        self.moving.leave(self.liveness.has_unanswered());
    }
}
