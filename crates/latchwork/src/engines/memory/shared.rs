//! The state that clones of one engine share.

use std::collections::HashMap;
use std::time::Duration;

use super::Verb;
use super::cells::CellTable;
use super::queue::{Entry, Queue};
use crate::clock::Moment;
use crate::engine::{
    Busy, Claim, ClaimId, Filter, LockState, Released, Renewal, Revoke, Revoked, Valid, Verdict,
};
use crate::names::BuildIdentityHasher;
use crate::{Effect, LockName, Loss, Result};

/// Locks, cells, and the faults that a test has set.
#[derive(Default)]
pub(super) struct Shared {
    locks: HashMap<LockName, Queue, BuildIdentityHasher>,
    /// Holders whose lock was revoked at once, until their next renewal: each with the end of its former
    /// lease.
    revoked: HashMap<ClaimId, Moment, BuildIdentityHasher>,
    last_token: u64,
    pub(super) cells: CellTable,
    pub(super) fails: HashMap<Verb, Effect>,
    pub(super) fails_always: HashMap<Verb, Effect>,
    pub(super) delays: HashMap<Verb, Duration>,
}

impl Shared {
    pub(super) fn take_fault(&mut self, verb: Verb) -> Option<Effect> {
        // A removal from an empty map costs as much as one from a full map.
        let once = if self.fails.is_empty() { None } else { self.fails.remove(&verb) };
        once.or_else(|| self.fails_always.get(&verb).copied())
    }

    pub(super) fn entry(&mut self, claim: &Claim) -> Option<&mut Entry> {
        self.locks.get_mut(&claim.name)?.entries.iter_mut().find(|entry| entry.claim.id == claim.id)
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: Moment) -> Result<Verdict> {
        self.settle(&claim.name, now);
        let queue = self.locks.entry(claim.name.clone()).or_default();
        claim.mode.same_number(queue.entries.iter().map(|entry| entry.claim.mode))?;
        queue.take_over(claim, now);
        queue.enqueue(claim, now);
        self.admit(&claim.name, now);
        let queue = self.locks.entry(claim.name.clone()).or_default();
        let position = queue.entries.iter().position(|entry| entry.claim.id == claim.id).unwrap_or_default();
        if let Some(Some(lease)) = queue.entries.get(position).map(|entry| entry.lease) {
            return Ok(Verdict::Granted(lease.grant()));
        }
        let first_end = queue.entries.iter().filter_map(|entry| entry.lease).map(|lease| lease.until).min();
        let heartbeat = claim.wait_lease / 3;
        let mut busy = Busy::new(first_end.unwrap_or(now).since(now).min(heartbeat));
        busy.floor = Some(self.last_token);
        busy.holder = queue.entries.first().map(|entry| entry.state(now));
        if claim.wait_lease.is_zero() {
            queue.entries.remove(position);
        } else {
            busy.position = u32::try_from(position).ok();
        }
        Ok(Verdict::Busy(busy))
    }

    pub(super) fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        if self.revoked.contains_key(&claim.id) {
            return Renewal::Lost(Loss::Revoked);
        }
        let Some(queue) = self.locks.get_mut(&claim.name) else { return Renewal::Lost(Loss::Removed) };
        let is_taken_over = queue.entries.iter().any(|entry| entry.is_taken_over_by(claim));
        let mine = queue.entries.iter_mut().find(|entry| entry.claim.id == claim.id);
        match mine.and_then(|entry| entry.lease.as_mut()) {
            None if is_taken_over => Renewal::Lost(Loss::TakenOver),
            None => Renewal::Lost(Loss::Removed),
            Some(lease) if lease.revoked => Renewal::Lost(Loss::Revoked),
            Some(lease) if lease.until <= now => Renewal::Lost(Loss::Expired),
            Some(lease) => {
                lease.until = now.after(claim.ttl);
                Renewal::Kept(Valid::Until(lease.until))
            }
        }
    }

    pub(super) fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        let absent =
            if self.revoked.remove(&claim.id).is_some() { Released::Revoked } else { Released::NotHeld };
        let Some(queue) = self.locks.get_mut(&claim.name) else { return absent };
        let before = queue.entries.len();
        queue.entries.retain(|entry| entry.claim.id != claim.id);
        let released = if queue.entries.len() < before { Released::Freed } else { absent };
        self.settle(&claim.name, now);
        released
    }

    pub(super) fn inspect(&mut self, filter: &Filter, now: Moment) -> Vec<LockState> {
        let mut names: Vec<_> = self.locks.keys().filter(|name| filter.matches(name)).cloned().collect();
        names.sort();
        names.iter().for_each(|name| self.settle(name, now));
        names.iter().filter_map(|name| Some(self.locks.get(name)?.state(name, now))).collect()
    }

    pub(super) fn revoke(&mut self, lock: &LockState, how: Revoke, now: Moment) -> Revoked {
        self.revoked.retain(|_, until| *until > now);
        let mut done = Revoked::NotHeld;
        let named = |entry: &Entry| lock.holders.iter().any(|holder| holder.id == entry.claim.id);
        if let Some(queue) = self.locks.get_mut(&lock.name) {
            for entry in queue.entries.iter_mut().filter(|entry| named(entry)) {
                let Some(lease) = &mut entry.lease else { continue };
                done = Revoked::Done;
                lease.revoked = true;
                if how.is_now() {
                    self.revoked.insert(entry.claim.id, lease.until);
                    lease.until = now;
                }
            }
        }
        self.settle(&lock.name, now);
        done
    }

    /// Removes the holders of a lock.
    pub(super) fn lose(&mut self, name: &LockName, now: Moment) {
        if let Some(queue) = self.locks.get_mut(name) {
            queue.entries.retain(|entry| entry.lease.is_none());
        }
        self.settle(name, now);
    }

    /// Removes expired claims, grants the lock to waiters, and forgets the lock if no claim is left.
    fn settle(&mut self, name: &LockName, now: Moment) {
        let Some(queue) = self.locks.get_mut(name) else { return };
        queue.entries.retain(|entry| entry.expires_at() > now);
        self.admit(name, now);
    }

    fn admit(&mut self, name: &LockName, now: Moment) {
        let Some(queue) = self.locks.get_mut(name) else { return };
        self.last_token = queue.admit(self.last_token, now);
        if queue.entries.is_empty() {
            self.locks.remove(name);
        }
    }
}
