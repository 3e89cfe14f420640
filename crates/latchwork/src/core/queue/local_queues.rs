//! The queues of all lock names, behind mutexes. Carries the decisions of [`LocalQueue`] out.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use super::{
    ClaimRole, Handoff, HeldTerms, InFlight, Inherited, Joinable, LocalBlocker, LocalQueue, LockTerms,
    NextTask, PendingRelease, QueueAnswer, ReadWindow, Strays, Turn, TurnSlot, WaitUntil,
};
use crate::LockName;
use crate::clock::Clock;
use crate::engine::{Claim, Mode};
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;

const SHARDS: usize = 16;

/// Every lock name that a task of this client drives, holds or waits for.
pub(in crate::core) struct LocalQueues<J: Joinable> {
    pub(super) clock: Clock,
    pub(super) shards: [Mutex<Shard<J>>; SHARDS],
}

pub(super) type TaskSlot<J> = Arc<TurnSlot<<J as Joinable>::Joined>>;

pub(super) struct Shard<J: Joinable> {
    pub(super) queues: HashMap<LockName, NameQueue<J>, BuildIdentityHasher>,
    /// The names that the sweeper checks, because a task has needed them since the last check.
    pub(super) contended: HashSet<LockName, BuildIdentityHasher>,
}

/// The queue of one name, with the state for the sweeper's checks.
pub(super) struct NameQueue<J: Joinable> {
    pub(super) queue: LocalQueue<TaskSlot<J>, J>,
    /// Tasks that were offered their turn. Some may have taken it since.
    pub(super) offers: Vec<NextTask<TaskSlot<J>>>,
    /// How often the sweeper is to check the requests in flight, although no task waits.
    pub(super) checks: u8,
}

/// The next task in line, for a claim that it can hold. The queue stays locked until the claim is passed.
#[must_use]
pub(in crate::core) struct Successor<'a, J: Joinable> {
    shard: MutexGuard<'a, Shard<J>>,
    task: NextTask<TaskSlot<J>>,
}

/// The role of a claim that is no longer outstanding, and the release that tasks waited for.
type EndedClaim<'a> = (ClaimRole, Option<&'a Arc<PendingRelease>>);

impl<J: Joinable> LocalQueues<J> {
    pub(in crate::core) fn new(clock: Clock) -> Self {
        Self { clock, shards: std::array::from_fn(|_| Mutex::default()) }
    }

    pub(super) fn shard(&self, name: &LockName) -> MutexGuard<'_, Shard<J>> {
        // Not the lowest bits, which place the name inside its shard.
        lock_ignoring_poison(&self.shards[(name.hash_code() >> 32) as usize % SHARDS])
    }

    /// A task asks for the lock.
    pub(in crate::core) fn enqueue(
        &self,
        name: &LockName,
        terms: &Arc<LockTerms>,
        wait: WaitUntil,
    ) -> QueueAnswer<TaskSlot<J>, J::Joined> {
        let now = || self.clock.now();
        let mut shard = self.shard(name);
        let Shard { queues, contended } = &mut *shard;
        let known = match queues.entry(name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                return QueueAnswer::Drive(free.insert(NameQueue::default()).queue.drive_right(terms, now));
            }
        };
        let admission = known.queue.enqueue(terms, wait, now, Arc::default);
        if let QueueAnswer::Queued { .. } = admission {
            known.begin_checks(self.clock);
            // The server may be back long before the janitor's next request.
            known.queue.releases.iter().for_each(|release| release.retry_now());
            // Without a sweeper the name would never be removed again.
            if !self.clock.lives_in_the_runtime() && !contended.contains(name) {
                contended.insert(name.clone());
            }
        }
        admission
    }

    /// A task that was not offered its turn stops waiting. Returns whether the queue knew it.
    pub(in crate::core) fn cancel(&self, name: &LockName, arrival: u64) -> bool {
        let mut shard = self.shard(name);
        let is_known = shard.queues.get_mut(name).is_some_and(|known| known.queue.cancel(arrival));
        drop(shard);
        if is_known {
            // It may have been a writer that kept readers back.
            self.wake_next(name);
        }
        is_known
    }

    /// A task whose turn was taken back is polled again.
    pub(in crate::core) fn requeue(&self, name: &LockName, arrival: u64, waker: &Waker) {
        let mut shard = self.shard(name);
        if let Some(known) = shard.queues.get_mut(name)
            && let Some(waiter) = known.queue.stalled.get(&arrival)
        {
            waiter.slot.wait_again(waker);
            let handoff = known.queue.requeue(arrival);
            // The task polls its slot again at once, so it needs no waking.
            known.carry_out(handoff);
            shard.contended.insert(name.clone());
        }
        drop(shard);
        self.wake_next(name);
    }

    /// The next task in line, if it can hold this claim. `None`: the claim must be released.
    pub(in crate::core) fn pass(&self, held: &HeldTerms<'_>) -> Option<Successor<'_, J>> {
        let name = &held.claim.name;
        let mut shard = self.shard(name);
        let task = shard.queues.get_mut(name)?.queue.pass(held)?;
        Some(Successor { shard, task })
    }

    /// Ends the part of a ticket. A claim that is left goes to the next task in line if it asks for the same;
    /// otherwise the claim is returned, and stays outstanding until its release is answered.
    pub(in crate::core) fn pass_on(
        &self,
        name: &LockName,
        role: ClaimRole,
        left: Inherited,
        release: Option<&Arc<PendingRelease>>,
    ) -> Option<(Arc<Claim>, Strays)> {
        if left.claim.is_none() {
            self.released(name, role, release);
            return None;
        }
        let mut shard = self.shard(name);
        let Some(known) = shard.queues.get_mut(name) else { return left.into_release() };
        let handoff = match known.queue.inherit(role, left) {
            Ok(handoff) => handoff,
            Err(left) => return left.into_release(),
        };
        let woken = known.carry_out(handoff);
        release.into_iter().for_each(|release| known.queue.forget(release));
        drop(shard);
        woken.flatten().into_iter().for_each(Waker::wake);
        release.into_iter().for_each(|release| release.over());
        None
    }

    /// The release of a claim was answered or given up, or there was nothing to release.
    pub(in crate::core) fn released(
        &self,
        name: &LockName,
        role: ClaimRole,
        release: Option<&Arc<PendingRelease>>,
    ) {
        self.wake_all(name, Some((role, release)));
        // Only now: a task that tries looks at the queue again.
        release.into_iter().for_each(|release| release.over());
    }

    /// Lets all waiting tasks of the holder's owner hold with it.
    pub(in crate::core) fn share_with_owner(&self, claim: &Arc<Claim>, held: J) {
        let mut woken = Vec::new();
        if let Some(known) = self.shard(&claim.name).queues.get_mut(&claim.name) {
            let handoffs = known.queue.share_with_owner(claim, held);
            woken.extend(handoffs.into_iter().filter_map(|handoff| known.carry_out(handoff).flatten()));
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Lets the readers behind this one hold with it, up to the first task that asks for something else.
    pub(in crate::core) fn share_with_readers(&self, claim: &Arc<Claim>, held: J, reads: Option<ReadWindow>) {
        if let Some(known) = self.shard(&claim.name).queues.get_mut(&claim.name) {
            known.queue.share_with_readers(claim, held, reads);
        }
        self.wake_next(&claim.name);
    }

    /// Adds a release that keeps the name closed although no task has the lock. `request`: the request of its
    /// task.
    pub(in crate::core) fn announce(
        &self,
        name: &LockName,
        release: PendingRelease,
        request: Option<&InFlight>,
    ) -> Arc<PendingRelease> {
        let release = Arc::new(release);
        if let Some(known) = self.shard(name).queues.get_mut(name) {
            known.queue.releases.push(release.clone());
        }
        if let Some(request) = request {
            request.set_pending_release(&release);
            if !request.is_active() {
                // Taken over meanwhile: the release that took its place is announced by itself.
                if let Some(known) = self.shard(name).queues.get_mut(name) {
                    known.queue.forget(&release);
                }
                release.over();
            }
        }
        release
    }

    /// Adds a request that the queue waits for.
    pub(in crate::core) fn register(&self, request: &Arc<InFlight>) {
        let name = &request.claim.name;
        if let Some(known) = self.shard(name).queues.get_mut(name) {
            known.queue.in_flight.retain(|request| request.is_active());
            known.queue.in_flight.push(request.clone());
        }
    }

    /// The reason why it did not become the turn of a task in time: another task, or a release that alone
    /// keeps the name closed.
    pub(in crate::core) fn blocker(
        &self,
        name: &LockName,
        mode: Mode,
    ) -> Result<LocalBlocker, Arc<PendingRelease>> {
        let shard = self.shard(name);
        let Some(known) = shard.queues.get(name) else { return Ok(LocalBlocker::Waiter) };
        known.queue.blocking_release(mode).map_or_else(|| Ok(known.queue.blocker()), Err)
    }

    /// Gives the first tasks in line their turns, as long as the outstanding claims admit them.
    pub(in crate::core) fn wake_next(&self, name: &LockName) {
        self.wake_all(name, None);
    }

    /// Removes the claim that has `ended`, and gives the first tasks in line their turns. Forgets a name that
    /// no task needs.
    fn wake_all(&self, name: &LockName, mut ended: Option<EndedClaim<'_>>) {
        loop {
            let (woken, drained) = {
                let mut shard = self.shard(name);
                let Entry::Occupied(mut entry) = shard.queues.entry(name.clone()) else { return };
                let known = entry.get_mut();
                let drained = ended.take().and_then(|(role, release)| known.queue.ended(role, release));
                let handoff = known.queue.wake_next(|| self.clock.now());
                let woken = known.carry_out(handoff);
                if woken.is_none() && known.queue.is_empty() {
                    entry.remove();
                }
                (woken, drained)
            };
            if let Some(readers) = drained {
                readers.notify_one();
            }
            let Some(woken) = woken else { return };
            woken.into_iter().for_each(Waker::wake);
        }
    }

    /// How many tasks wait for this name. `None` if the name is forgotten.
    #[cfg(all(test, feature = "memory"))]
    pub(in crate::core) fn waiting(&self, name: &LockName) -> Option<usize> {
        self.shard(name).queues.get(name).map(|known| known.queue.waiting.len())
    }
}

impl<J: Joinable> Successor<'_, J> {
    /// Gives the claim of `name` to the task.
    pub(in crate::core) fn receive(self, name: &LockName, held: J::Joined) {
        let Self { mut shard, task } = self;
        let woken = match shard.queues.get_mut(name) {
            Some(known) => known.offer(task, Turn::Pass(held)),
            None => unreachable!("a name with a held claim is not forgotten"),
        };
        drop(shard);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<J: Joinable> NameQueue<J> {
    /// Carries a decision out. Returns `None` if it was no task's turn, else the waker to wake, if there is
    /// one.
    fn carry_out(&mut self, handoff: Handoff<TaskSlot<J>, J::Joined>) -> Option<Option<Waker>> {
        match handoff {
            Handoff::Pass { to, held } => Some(self.offer(to, Turn::Pass(held))),
            Handoff::Drive { to, right } => Some(self.offer(to, Turn::Drive(right))),
            Handoff::Nothing => None,
        }
    }

    /// Offers the turn to a task that was removed from the waiting ones. Returns the waker to wake.
    fn offer(&mut self, to: NextTask<TaskSlot<J>>, turn: Turn<J::Joined>) -> Option<Waker> {
        let waker = to.waiter.slot.offer(turn);
        // Only when the vector would grow: most turns are taken at once.
        if self.offers.len() == self.offers.capacity() {
            self.offers.retain(|offered| offered.waiter.slot.is_offered());
        }
        self.offers.push(to);
        waker
    }
}

impl Inherited {
    fn into_release(self) -> Option<(Arc<Claim>, Strays)> {
        self.claim.map(|claim| (claim, self.strays))
    }
}

impl<J: Joinable> Default for Shard<J> {
    fn default() -> Self {
        Self { queues: HashMap::default(), contended: HashSet::default() }
    }
}

impl<J: Joinable> Default for NameQueue<J> {
    fn default() -> Self {
        Self { queue: LocalQueue::default(), offers: Vec::new(), checks: 0 }
    }
}
