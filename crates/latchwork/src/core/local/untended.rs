//! The sweeper checks two things in the queue of a name: turns that were offered, and requests that others
//! need.

use std::sync::Arc;

use super::super::duty::{self, Duty};
use super::{Core, Queue, Shard, Turn, sweeper};
use crate::LockName;
use crate::clock::Clock;

/// Tells the queue about a request that it waits for.
pub(in crate::core) fn register(core: &Core, duty: &Arc<Duty>) {
    let name = &duty.claim.name;
    if let Some(queue) = core.local.shard(name).queues.get_mut(name) {
        queue.duties.retain(|duty| duty.is_active());
        queue.duties.push(duty.clone());
    }
}

/// Makes the sweeper check the tasks that keep this name closed, for a task that does not wait.
pub(super) fn check_duties(core: &Arc<Core>, name: &LockName) {
    let mut shard = core.local.shard(name);
    let Shard { queues, contended } = &mut *shard;
    if queues.get_mut(name).is_some_and(|queue| queue.begin_checks(core.clock)) {
        contended.insert(name.clone());
        drop(shard);
        sweeper::start(core);
    }
}

/// Tasks of this client that block others and may not be polled any more.
#[derive(Default)]
pub(in crate::core) struct Untended {
    pub(in crate::core) turns: Vec<Turn>,
    pub(in crate::core) duties: Vec<Arc<Duty>>,
    /// Whether any task needs a lock that others keep.
    pub(in crate::core) is_contended: bool,
}

impl Queue {
    /// Called for a task that needs the lock. The duties are then checked until one that nobody attends to is
    /// taken over, even if no task waits at the time: this one may only try, or wait for less than the
    /// interval. Returns whether there is anything to check.
    pub(super) fn begin_checks(&mut self, clock: Clock) -> bool {
        let is_checked = !clock.lives_in_the_runtime() && self.duties.iter().any(|duty| duty.is_active());
        if is_checked {
            self.checks = duty::CHECKS;
        }
        is_checked
    }

    /// Takes back the turns that were offered to tasks that are not polled.
    fn take_back(&mut self, turns: &mut Vec<Turn>) {
        for (arrival, waiting) in std::mem::take(&mut self.offers) {
            match waiting.slot.take_back() {
                Some(turn) => {
                    turns.push(turn);
                    self.stalled.insert(arrival, waiting);
                }
                None if waiting.slot.is_offered() => self.offers.push((arrival, waiting)),
                None => {}
            }
        }
    }
}

impl Shard {
    pub(in crate::core) fn look_around(&mut self, untended: &mut Untended) {
        let queues = &mut self.queues;
        self.contended.retain(|name| {
            let Some(queue) = queues.get_mut(name) else { return false };
            queue.take_back(&mut untended.turns);
            if !queue.waiting.is_empty() || queue.checks > 0 {
                untended.duties.extend(queue.duties.iter().filter(|duty| duty.is_active()).cloned());
            }
            queue.checks = queue.checks.saturating_sub(1);
            !queue.waiting.is_empty() || !queue.offers.is_empty() || queue.checks > 0
        });
        untended.is_contended |= self.is_contended();
    }

    /// Whether any task needs a lock that others keep, or needed one recently.
    pub(in crate::core) fn is_contended(&self) -> bool {
        !self.contended.is_empty()
    }
}
