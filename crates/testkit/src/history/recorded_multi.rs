//! Several locks at once, recorded.

use std::sync::Mutex;
use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::{MultiGuard, MultiLock, Result};

use super::event::What;
use super::heading::Heading;
use crate::drop_at_poll;

/// Several locks that are taken together, recorded as an attempt of each.
#[derive(Clone)]
pub struct RecordedMultiLock {
    headings: Vec<Heading>,
    lock: MultiLock,
}

impl RecordedMultiLock {
    /// The headings may be in any order.
    pub(super) fn new(mut headings: Vec<Heading>, lock: MultiLock) -> Self {
        headings.sort_by(|one, other| one.name.cmp(&other.name));
        Self { headings, lock }
    }

    /// As [`MultiLock::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.headings.iter_mut().for_each(|heading| heading.ttl = ttl);
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// As [`MultiLock::acquire`].
    ///
    /// # Errors
    /// As [`MultiLock::acquire`].
    pub async fn acquire(&self) -> Result<RecordedMultiGuard> {
        let attempts: Vec<_> = self.headings.iter().map(Heading::begin).collect();
        match self.lock.acquire().await {
            Ok(guard) => {
                let known = guard.each().iter().map(|held| held.lease_end()).collect();
                let attempts = attempts.into_iter().zip(guard.each());
                let numbers = attempts.map(|(attempt, held)| attempt.holds(held)).collect();
                let known = Mutex::new(RecordedLeases { lease_ends: known, is_lost: false });
                Ok(RecordedMultiGuard { headings: self.headings.clone(), numbers, guard: Some(guard), known })
            }
            Err(error) => {
                attempts.into_iter().for_each(|attempt| attempt.failed(&error));
                Err(error)
            }
        }
    }
}

/// Several held locks whose end is recorded. The loss of one of them is the loss of all.
#[must_use = "dropping a guard releases its locks"]
pub struct RecordedMultiGuard {
    headings: Vec<Heading>,
    numbers: Vec<u64>,
    guard: Option<MultiGuard>,
    known: Mutex<RecordedLeases>,
}

/// The state of the record.
struct RecordedLeases {
    lease_ends: Vec<Moment>,
    is_lost: bool,
}

impl RecordedMultiGuard {
    /// As [`MultiHeld::is_certain`](latchwork::MultiHeld::is_certain). Records a loss that it finds, or the
    /// new ends of the leases.
    pub fn is_certain(&self) -> bool {
        let guard = self.guard.as_ref().expect("used until it is released");
        // The ends of the leases are read first: they can only grow before the certainty check.
        let lease_ends: Vec<_> = guard.each().iter().map(|held| held.lease_end()).collect();
        let is_certain = guard.is_certain();
        let mut known = self.known.lock().expect("no thread panicked while recording");
        if is_certain && !known.is_lost {
            let renewed = lease_ends.iter().zip(&known.lease_ends).enumerate();
            for (place, (lease_end, _)) in renewed.filter(|(_, (now, before))| now != before) {
                self.note_one(place, What::Extended { lease_end: *lease_end });
            }
            known.lease_ends = lease_ends;
        } else if let Some((_, loss)) = drop_at_poll::now(guard.lost())
            && !known.is_lost
        {
            known.is_lost = true;
            self.note(What::FoundLost(loss));
        }
        is_certain
    }

    /// As [`MultiGuard::release`].
    ///
    /// # Errors
    /// As [`MultiGuard::release`].
    pub async fn release(mut self) -> Result<()> {
        self.is_certain();
        self.note(What::ReleaseInvoked);
        let guard = self.guard.take().expect("released once");
        let answer = guard.release().await;
        self.note(if answer.is_ok() { What::Released } else { What::ReleaseFailed });
        answer
    }

    fn note(&self, what: What) {
        (0..self.numbers.len()).for_each(|place| self.note_one(place, what));
    }

    fn note_one(&self, place: usize, what: What) {
        self.headings[place].note(self.numbers[place], what);
    }
}

impl Drop for RecordedMultiGuard {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.is_certain();
            self.note(What::ReleaseInvoked);
        }
    }
}
