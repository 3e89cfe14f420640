//! A connection, and how surely it lives.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Connection, Moving};
use crate::Result;
use crate::clock::{Clock, Moment};
use crate::core::defaults::{less_drift, stop_margin};

/// One connection.
pub(super) struct Line<C> {
    pub(super) connection: C,
    pub(super) facts: Arc<Facts>,
    pub(super) moving: Arc<Moving>,
}

/// What is known of a connection on every thread.
pub(super) struct Facts {
    ttl: Duration,
    /// For how long it is certain after a request that was answered.
    certain_for: Duration,
    /// How long before the end of that nothing on it is certain any more.
    margin: Duration,
    closed: AtomicBool,
    /// When the newest request that was answered was sent, in microseconds.
    acknowledged: AtomicU64,
    /// When the newest request was sent.
    newest: AtomicU64,
    /// When a request was sent that nothing was heard after. Zero: all were answered.
    unheard: AtomicU64,
}

impl Facts {
    pub(super) fn new(ttl: Duration) -> Arc<Self> {
        let [newest, unheard] = [0; 2].map(AtomicU64::new);
        // Whoever opens it asks something first.
        let acknowledged = AtomicU64::new(now().as_micros());
        let (certain_for, margin) = (less_drift(ttl), stop_margin(ttl, None));
        Arc::new(Self {
            ttl,
            certain_for,
            margin,
            closed: AtomicBool::new(false),
            acknowledged,
            newest,
            unheard,
        })
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn sent(&self) -> Moment {
        let sent = now();
        self.newest.fetch_max(sent.as_micros(), Ordering::SeqCst);
        self.begins_unheard(sent.as_micros());
        sent
    }

    fn begins_unheard(&self, sent: u64) {
        let _ = self.unheard.compare_exchange(0, sent, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Answers come in the order of requests: those before it were answered as well.
    fn heard(&self, sent: Moment) {
        let answered = self.acknowledged.fetch_max(sent.as_micros(), Ordering::AcqRel).max(sent.as_micros());
        self.unheard.store(0, Ordering::SeqCst);
        // Looked at after that: who asks meanwhile is seen here, or sees it there.
        let newest = self.newest.load(Ordering::SeqCst);
        if newest > answered {
            self.begins_unheard(newest);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn unheard_for(&self) -> Duration {
        match self.unheard.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            unheard => now().since(Moment::from_micros(unheard)),
        }
    }
}

fn now() -> Moment {
    Clock::boottime().now()
}

impl<C: Connection> Line<C> {
    /// Asks, and remembers when that was.
    pub(super) async fn ask<T>(&self, asking: impl Future<Output = Result<T>>) -> Result<T> {
        let sent = self.facts.sent();
        let answer = self.moving.moved(asking).await;
        if answer.is_ok() {
            self.facts.heard(sent);
        }
        answer
    }

    /// Until when the server surely keeps it: it counts its silence from the end of a request, which is after it was sent.
    pub(super) fn certain_until(&self) -> Moment {
        self.acknowledged().after(self.facts.certain_for)
    }

    pub(super) fn acknowledged(&self) -> Moment {
        Moment::from_micros(self.facts.acknowledged.load(Ordering::Acquire))
    }

    /// Whether it is closed; closes it if nothing on it is certain any more, and an answer has been missing for a while.
    pub(super) fn is_over(&self) -> bool {
        // Looked at first: where every answer is there, nobody has to look at the clock.
        if self.facts.unheard_for() > self.facts.ttl / 4
            && now().after(self.facts.margin) > self.certain_until()
        {
            self.close();
        }
        self.is_closed()
    }

    /// The same for one that waits in the server, where an answer takes its time.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_closed() || self.facts.unheard_for() > self.facts.ttl * 2
    }

    fn is_closed(&self) -> bool {
        self.facts.is_closed() || self.connection.is_closed()
    }

    /// A sign of life, unless one younger than this was acknowledged. Whether it surely lives.
    pub(super) async fn beat(&self, young: Duration) -> bool {
        let is_young = now().since(self.acknowledged()) < young;
        // Boxed: most are, and the others have to wait anyway.
        is_young || Box::pin(self.ask(self.connection.beat())).await.is_ok()
    }

    pub(super) fn close(&self) {
        self.facts.close();
        self.moving.end();
    }
}

/// Nobody uses it any more: whatever it may still hold must not outlive that.
impl<C> Drop for Line<C> {
    fn drop(&mut self) {
        self.facts.close();
        self.moving.leave(self.facts.unheard.load(Ordering::Acquire) != 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_one_request_is_none_to_those_after_it() {
        let facts = Facts::new(Duration::from_secs(3));
        let is_all_heard = || facts.unheard.load(Ordering::SeqCst) == 0;
        let [first, second, third] = [1_000_000, 1_000_001, 1_000_002].map(Moment::from_micros);
        for sent in [first, second, third] {
            facts.newest.fetch_max(sent.as_micros(), Ordering::SeqCst);
            facts.begins_unheard(sent.as_micros());
        }
        facts.acknowledged.store(0, Ordering::SeqCst);
        facts.heard(first);
        assert!(!is_all_heard(), "two are under way");
        facts.heard(third);
        assert!(is_all_heard(), "the second was answered before it");
        facts.heard(second);
        assert!(is_all_heard());
    }
}
