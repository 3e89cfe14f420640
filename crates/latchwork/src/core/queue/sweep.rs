//! The checks of the sweeper in the queue of a name: turns that were offered and not taken, and requests that
//! other tasks wait for.

use std::sync::Arc;

use super::local_queues::{LocalQueues, NameQueue, Shard};
use super::{InFlight, Joinable, Turn, in_flight};
use crate::LockName;
use crate::clock::Clock;
use crate::poison::lock_ignoring_poison;

/// Turns and requests of tasks that may not be polled any more, while other tasks of this client wait for
/// them.
pub(in crate::core) struct Untended<H> {
    pub(in crate::core) turns: Vec<(LockName, Turn<H>)>,
    pub(in crate::core) requests: Vec<Arc<InFlight>>,
    /// Whether any task needs a lock that other tasks keep.
    pub(in crate::core) is_contended: bool,
}

impl<J: Joinable> LocalQueues<J> {
    /// Makes the sweeper check the tasks that keep this name closed, for a task that does not wait. Returns
    /// whether the sweeper must run.
    pub(in crate::core) fn begin_checks(&self, name: &LockName) -> bool {
        let mut shard = self.shard(name);
        let Shard { queues, contended } = &mut *shard;
        let is_checked = queues.get_mut(name).is_some_and(|known| known.begin_checks(self.clock));
        if is_checked {
            contended.insert(name.clone());
        }
        is_checked
    }

    /// Checks every shard. The turns are taken back; each must be dropped or handed back while no shard is
    /// locked.
    pub(in crate::core) fn sweep(&self) -> Untended<J::Joined> {
        let mut untended = Untended { turns: Vec::new(), requests: Vec::new(), is_contended: false };
        for shard in &self.shards {
            lock_ignoring_poison(shard).sweep(&mut untended);
        }
        untended
    }

    /// Whether any task needs a lock that other tasks keep, or needed one recently.
    pub(in crate::core) fn is_contended(&self) -> bool {
        self.shards.iter().any(|shard| lock_ignoring_poison(shard).is_contended())
    }
}

impl<J: Joinable> NameQueue<J> {
    /// Called for a task that needs the lock. The requests in flight are then checked until an untended one
    /// is taken over, even if no task waits at the time: this one may only try, or wait for less than the
    /// interval. Returns whether there is anything to check.
    pub(super) fn begin_checks(&mut self, clock: Clock) -> bool {
        let is_checked =
            !clock.lives_in_the_runtime() && self.queue.in_flight.iter().any(|request| request.is_active());
        if is_checked {
            self.checks = in_flight::CHECKS;
        }
        is_checked
    }

    /// Takes back the turns that were offered to tasks that are not polled.
    fn take_back(&mut self, name: &LockName, turns: &mut Vec<(LockName, Turn<J::Joined>)>) {
        for task in std::mem::take(&mut self.offers) {
            match task.waiter.slot.take_back() {
                Some(turn) => {
                    turns.push((name.clone(), turn));
                    self.queue.stall(task);
                }
                None if task.waiter.slot.is_offered() => self.offers.push(task),
                None => {}
            }
        }
    }
}

impl<J: Joinable> Shard<J> {
    fn sweep(&mut self, untended: &mut Untended<J::Joined>) {
        let queues = &mut self.queues;
        self.contended.retain(|name| {
            let Some(known) = queues.get_mut(name) else { return false };
            known.take_back(name, &mut untended.turns);
            let has_waiters = !known.queue.waiting.is_empty();
            if has_waiters || known.checks > 0 {
                let active = known.queue.in_flight.iter().filter(|request| request.is_active());
                untended.requests.extend(active.cloned());
            }
            known.checks = known.checks.saturating_sub(1);
            has_waiters || !known.offers.is_empty() || known.checks > 0
        });
        untended.is_contended |= self.is_contended();
    }

    fn is_contended(&self) -> bool {
        !self.contended.is_empty()
    }
}
