//! The queue inside one client: one FIFO for each lock name, so that only clients compete on the wire.
//!
//! The first task drives the claim at the server. The tasks behind it receive the held claim itself, or the
//! right to drive. Readers share one claim for as long as it may be passed on. Permits have a claim each.
//!
//! [`LocalQueue`] only decides: each event goes in as a method call, and the decision comes out as a value.
//! It sends nothing, wakes no task and reads no clock, so that `walk` can try every order of events.
//! [`LocalQueues`] has the mutexes and carries the decisions out: it puts each turn into the slot of its task
//! and wakes that task. Neither of them uses `background`, `held` or `acquire`. Of a held claim they see only
//! [`Joinable`], which two reads implement.

mod handoff;
mod in_flight;
mod local_queues;
mod outstanding;
mod pending_release;
mod sweep;
mod turn_slot;
#[cfg(test)]
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use self::handoff::Handoff;
pub(super) use self::handoff::{DriveRight, Inherited, LocalBlocker, QueueAnswer, Strays};
pub(super) use self::in_flight::{Abort, Aborted, InFlight, Purpose};
pub(super) use self::local_queues::LocalQueues;
pub(super) use self::outstanding::ClaimRole;
use self::outstanding::Outstanding;
pub(super) use self::pending_release::PendingRelease;
pub(super) use self::turn_slot::{ClosedSlot, SlotEvent, Turn, TurnSlot};
use super::terms::{HeldTerms, LockTerms, WaitUntil};
use crate::clock::Moment;
use crate::engine::{Claim, Mode};

/// A handle to a claim that several tasks can hold together.
pub(crate) trait Joinable {
    /// The share of one task in the claim.
    type Joined;

    /// Whether the claim is surely held at `now`.
    fn is_certain_at(&self, now: Moment) -> bool;

    /// Another share. `None` once the last task has given up its share.
    fn join(&self) -> Option<Self::Joined>;
}

/// The outstanding claims of one name, and the tasks behind them in order of arrival. `S` is the slot in
/// which a task receives its turn.
#[cfg_attr(test, derive(Clone))]
pub(super) struct LocalQueue<S, J> {
    outstanding: Outstanding,
    arrivals: u64,
    waiting: BTreeMap<u64, Waiter<S>>,
    /// Tasks that did not take their turn in time. Each stays here until it is polled again.
    stalled: BTreeMap<u64, Waiter<S>>,
    /// Requests that other tasks of this client wait for. Some may be done.
    in_flight: Vec<Arc<InFlight>>,
    /// Releases that keep the name closed although no task has the lock.
    releases: Vec<Arc<PendingRelease>>,
    shared: Option<SharedClaim<J>>,
    /// Notified when the last reader of this client has released its claim.
    drained: Option<Arc<Notify>>,
}

/// A claim that guards of one owner, or readers, hold together.
#[cfg_attr(test, derive(Clone))]
struct SharedClaim<J> {
    claim: Arc<Claim>,
    held: J,
    reads: Option<ReadWindow>,
}

/// Which readers may join the readers that hold.
#[cfg_attr(test, derive(Clone))]
pub(super) struct ReadWindow {
    pub(super) terms: LockTerms,
    /// Other clients are always assumed to wait, so a claim cannot be joined for ever.
    pub(super) until: Moment,
}

/// A task that waits.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Waiter<S> {
    terms: Arc<LockTerms>,
    slot: S,
}

/// A task that was removed from the queue because its turn has come.
#[cfg_attr(test, derive(Clone))]
pub(super) struct NextTask<S> {
    arrival: u64,
    waiter: Waiter<S>,
}

impl<S, J> Default for LocalQueue<S, J> {
    fn default() -> Self {
        Self {
            outstanding: Outstanding::default(),
            arrivals: 0,
            waiting: BTreeMap::new(),
            stalled: BTreeMap::new(),
            in_flight: Vec::new(),
            releases: Vec::new(),
            shared: None,
            drained: None,
        }
    }
}

impl<S, J: Joinable> LocalQueue<S, J> {
    /// A task asks for the lock. `now` is only called if the decision depends on the time.
    fn enqueue(
        &mut self,
        terms: &Arc<LockTerms>,
        wait: WaitUntil,
        now: impl Fn() -> Moment,
        new_slot: impl FnOnce() -> S,
    ) -> QueueAnswer<S, J::Joined>
    where
        S: Clone,
    {
        if let Some(held) = self.nested_by(terms) {
            return QueueAnswer::Join(held);
        }
        if self.waiting.is_empty()
            && let Some(held) = self.joined_by(terms, &now)
        {
            return QueueAnswer::Join(held);
        }
        let is_admitted = match wait {
            WaitUntil::Never => self.admits_try(terms.mode),
            _ => self.waiting.is_empty() && self.outstanding.admits(terms.mode),
        };
        if is_admitted {
            return QueueAnswer::Drive(self.drive_right(terms, now));
        }
        if wait == WaitUntil::Never {
            return self.refuse_try(terms.mode);
        }
        let slot = new_slot();
        self.arrivals += 1;
        self.waiting.insert(self.arrivals, Waiter { terms: terms.clone(), slot: slot.clone() });
        QueueAnswer::Queued { arrival: self.arrivals, slot }
    }

    /// The right to drive, for a task that the outstanding claims admit.
    fn drive_right(&mut self, terms: &LockTerms, now: impl Fn() -> Moment) -> DriveRight {
        let role = ClaimRole::requesting(terms.mode);
        let is_behind_readers = role == ClaimRole::RequestingRead
            && self.outstanding.is_read()
            && terms.shares_reads()
            && self
                .shared
                .as_ref()
                .is_some_and(|shared| shared.reads.is_some() && shared.held.is_certain_at(now()));
        let readers = is_behind_readers.then(|| self.drained.get_or_insert_default().clone());
        self.outstanding.add(role);
        DriveRight { role, inherited: Inherited::default(), readers }
    }

    /// Whether a task that does not wait should ask the server. Waiting or holding readers of this client are
    /// not in a reader's way; they stop every writer.
    fn admits_try(&self, mode: Mode) -> bool {
        let is_in_order = match mode {
            Mode::Read => self.waiting.values().all(|waiter| waiter.terms.mode == mode),
            _ => self.waiting.is_empty(),
        };
        is_in_order && self.outstanding.admits_try(mode)
    }

    /// The answer to a task that does not wait and must not ask the server now. If it would only have to wait
    /// for a release, then so do the tasks before it.
    fn refuse_try(&self, mode: Mode) -> QueueAnswer<S, J::Joined> {
        match self.releases.first().filter(|_| self.without_releases().admits_try(mode)) {
            Some(release) => QueueAnswer::Closed(release.clone()),
            None => QueueAnswer::Busy(self.blocker()),
        }
    }

    /// A share in the claim of a guard of the same owner.
    fn nested_by(&self, terms: &LockTerms) -> Option<J::Joined> {
        self.shared.as_ref().filter(|shared| terms.could_nest(&shared.claim))?.held.join()
    }

    /// A share in the claim of the readers that hold, for a reader that comes after them.
    fn joined_by(&self, terms: &LockTerms, now: impl Fn() -> Moment) -> Option<J::Joined> {
        let shared = self.shared.as_ref().filter(|_| self.outstanding.is_only_read())?;
        let reads = shared.reads.as_ref().filter(|reads| terms.agrees_with(&reads.terms))?;
        let now = now();
        // Joined last: if the share were dropped here, it might be the last one, and its release would need
        // the queue that is locked now.
        if now < reads.until && shared.held.is_certain_at(now) { shared.held.join() } else { None }
    }

    /// The turn of the first task in line, if it has come.
    fn wake_next(&mut self, now: impl Fn() -> Moment) -> Handoff<S, J::Joined> {
        let Some(first) = self.waiting.first_entry() else { return Handoff::Nothing };
        let (arrival, terms) = (*first.key(), first.get().terms.clone());
        let held = self.joined_by(&terms, &now);
        if held.is_none() && !self.outstanding.admits(terms.mode) {
            return Handoff::Nothing;
        }
        let Some(waiter) = self.waiting.remove(&arrival) else { return Handoff::Nothing };
        let to = NextTask { arrival, waiter };
        match held {
            Some(held) => Handoff::Pass { to, held },
            None => Handoff::Drive { to, right: self.drive_right(&terms, now) },
        }
    }

    /// An exclusive claim is free again, and may be passed on. Removes the first task in line if it can hold
    /// that claim.
    fn pass(&mut self, held: &HeldTerms<'_>) -> Option<NextTask<S>> {
        self.first_if(|terms| terms.could_hold(held))
    }

    /// A task gives up and leaves a claim. The first task in line goes on with it if it asks for the same.
    fn inherit(&mut self, role: ClaimRole, left: Inherited) -> Result<Handoff<S, J::Joined>, Inherited> {
        let next = left.claim.as_ref().and_then(|claim| self.first_if(|terms| terms.could_drive(claim)));
        match next {
            Some(to) => Ok(Handoff::Drive { to, right: DriveRight { role, inherited: left, readers: None } }),
            None => Err(left),
        }
    }

    /// A claim is no longer outstanding. Returns the notification for tasks that wait until readers are done.
    fn ended(&mut self, role: ClaimRole, release: Option<&Arc<PendingRelease>>) -> Option<Arc<Notify>> {
        self.outstanding.remove(role);
        release.into_iter().for_each(|release| self.forget(release));
        self.in_flight.retain(|request| request.is_active());
        if self.outstanding.is_read() { None } else { self.drained.take() }
    }

    /// The claim of an owner was granted. All waiting tasks of that owner hold with it, because the holder
    /// may wait for them.
    fn share_with_owner(&mut self, claim: &Arc<Claim>, held: J) -> Vec<Handoff<S, J::Joined>> {
        let own = self.waiting.extract_if(.., |_, waiter| waiter.terms.could_nest(claim));
        let share =
            |(arrival, waiter)| Some(Handoff::Pass { to: NextTask { arrival, waiter }, held: held.join()? });
        let handoffs = own.filter_map(share).collect();
        self.shared = Some(SharedClaim { claim: claim.clone(), held, reads: None });
        handoffs
    }

    /// The claim of a reader was granted. The readers behind it hold with it, up to the first task that asks
    /// for something else: [`LocalQueue::wake_next`] decides about each.
    fn share_with_readers(&mut self, claim: &Arc<Claim>, held: J, reads: Option<ReadWindow>) {
        self.outstanding.remove(ClaimRole::RequestingRead);
        self.outstanding.add(ClaimRole::Reading);
        self.shared = Some(SharedClaim { claim: claim.clone(), held, reads });
    }

    /// A task that was not offered its turn stops waiting. Returns whether the queue knew it.
    fn cancel(&mut self, arrival: u64) -> bool {
        self.waiting.remove(&arrival).or_else(|| self.stalled.remove(&arrival)).is_some()
    }

    /// The turn of this task was taken back, because the task was not polled.
    fn stall(&mut self, task: NextTask<S>) {
        self.stalled.insert(task.arrival, task.waiter);
    }

    /// A stalled task is polled again. It returns to its old place in line, or shares the claim of its
    /// owner's guard, which may wait for this task.
    fn requeue(&mut self, arrival: u64) -> Handoff<S, J::Joined> {
        let Some(waiter) = self.stalled.remove(&arrival) else { return Handoff::Nothing };
        match self.nested_by(&waiter.terms) {
            Some(held) => Handoff::Pass { to: NextTask { arrival, waiter }, held },
            None => {
                self.waiting.insert(arrival, waiter);
                Handoff::Nothing
            }
        }
    }

    /// The outstanding claims that still belong to a task.
    fn without_releases(&self) -> Outstanding {
        let mut outstanding = self.outstanding;
        self.releases.iter().for_each(|release| outstanding.remove(release.role));
        outstanding
    }

    /// Whether a task of this client holds the lock, or only asks for it.
    fn blocker(&self) -> LocalBlocker {
        let mut held = self.without_releases();
        let requests = self.in_flight.iter().filter(|request| request.is_claim() && request.is_active());
        requests.for_each(|request| held.remove(request.role));
        if held.is_empty() { LocalBlocker::Waiter } else { LocalBlocker::Holder }
    }

    /// The release that alone keeps a waiting task of this mode from asking.
    fn blocking_release(&self, mode: Mode) -> Option<Arc<PendingRelease>> {
        self.releases.first().filter(|_| self.without_releases().admits(mode)).cloned()
    }

    fn forget(&mut self, release: &Arc<PendingRelease>) {
        self.releases.retain(|other| !Arc::ptr_eq(other, release));
    }

    /// Whether nothing is outstanding and no task waits: the name can be forgotten.
    fn is_empty(&self) -> bool {
        self.outstanding.is_empty() && self.waiting.is_empty() && self.stalled.is_empty()
    }

    /// Removes and returns the first task in line, if its terms are `accepted`.
    fn first_if(&mut self, accepted: impl FnOnce(&LockTerms) -> bool) -> Option<NextTask<S>> {
        let first = self.waiting.first_entry()?;
        let arrival = *first.key();
        accepted(&first.get().terms).then(|| NextTask { arrival, waiter: first.remove() })
    }
}
