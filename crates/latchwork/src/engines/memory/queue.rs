//! The queue of one lock.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use crate::LockName;
use crate::clock::{self, Moment};
use crate::engine::{Claim, ClaimState, Grant, LockState, Valid};
use crate::engines::admission::Admission;
use crate::token::next_engine_token;

/// Holders and waiters of one lock, in order of arrival.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) entries: Vec<Entry>,
}

/// One holder or waiter.
pub(super) struct Entry {
    pub(super) claim: Claim,
    /// When the claim arrived, on the wall clock.
    since: u64,
    /// The time of the newest `claim` call.
    claimed_at: Moment,
    /// `None`: the claim waits.
    pub(super) lease: Option<HeldLease>,
    /// Created by the first `wait` call.
    pub(super) bell: Option<Arc<Notify>>,
}

/// The lease of a holder.
#[derive(Clone, Copy)]
pub(super) struct HeldLease {
    token: u64,
    pub(super) until: Moment,
    pub(super) revoked: bool,
}

impl HeldLease {
    pub(super) fn grant(self) -> Grant {
        Grant { token: Some(self.token), valid: Valid::Until(self.until) }
    }
}

impl Queue {
    /// Puts a claim in the place of the holder that it takes over from. Waiters keep their places.
    pub(super) fn take_over(&mut self, claim: &Claim, now: Moment) {
        let Some(index) = self.entries.iter().position(|entry| entry.is_taken_over_by(claim)) else { return };
        self.entries.retain(|entry| entry.claim.id != claim.id);
        self.entries[index] = Entry::waiting(claim, now);
    }

    /// Appends a claim to the queue. A claim that is in the queue keeps its place for another wait lease.
    pub(super) fn enqueue(&mut self, claim: &Claim, now: Moment) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.claim.id == claim.id) {
            entry.claimed_at = now;
            return;
        }
        if self.entries.is_empty() {
            self.entries.reserve_exact(1); // Most locks have one holder and no waiters.
        }
        self.entries.push(Entry::waiting(claim, now));
    }

    /// Grants the lock to waiters, in order of arrival, for as long as they may hold beside the holders.
    /// Returns the newest token; `last_token` is the newest one before.
    pub(super) fn admit(&mut self, last_token: u64, now: Moment) -> u64 {
        let (mut admission, mut token) = (Admission::default(), last_token);
        for entry in &mut self.entries {
            if admission.is_full() {
                break;
            }
            if entry.lease.is_some() {
                admission.count(entry.claim.mode);
            } else if admission.fits(entry.claim.mode) {
                admission.count(entry.claim.mode);
                // No floor: nothing is stored that could be lost, and tests count from 1.
                token = next_engine_token(token, 0);
                let until = now.after(entry.claim.ttl);
                entry.lease = Some(HeldLease { token, until, revoked: false });
                entry.bell.iter().for_each(|bell| bell.notify_one());
            } else {
                break;
            }
        }
        token
    }

    pub(super) fn state(&self, name: &LockName, now: Moment) -> LockState {
        let mut state = LockState::new(name.clone());
        for entry in &self.entries {
            let list = if entry.lease.is_some() { &mut state.holders } else { &mut state.waiters };
            list.push(entry.state(now));
        }
        state
    }
}

impl Entry {
    fn waiting(claim: &Claim, now: Moment) -> Self {
        Self { claim: claim.clone(), since: clock::wall_micros(), claimed_at: now, lease: None, bell: None }
    }

    /// The end of the lease of a holder, or of the wait lease of a waiter.
    pub(super) fn expires_at(&self) -> Moment {
        self.lease.map_or_else(|| self.claimed_at.after(self.claim.wait_lease), |lease| lease.until)
    }

    pub(super) fn is_taken_over_by(&self, claim: &Claim) -> bool {
        self.lease.is_some() && claim.takes_over(self.claim.id, self.claim.mode, self.claim.owner.as_ref())
    }

    pub(super) fn state(&self, now: Moment) -> ClaimState {
        let mut state = ClaimState::new(self.claim.id);
        state.permits = self.claim.mode.permits();
        state.token = self.lease.map(|lease| lease.token);
        state.owner = self.claim.owner.clone();
        state.note = self.claim.note.clone();
        state.since = Some(SystemTime::UNIX_EPOCH + Duration::from_micros(self.since));
        state.expires_in = self.lease.map(|lease| lease.until.since(now));
        state
    }
}
