//! A request on which the queue of a client waits, and which is taken over from a task that nobody runs.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::active::Part;
use super::{Core, local};
use crate::engine::Claim;
use crate::locked::locked;

/// How often the task may fail to be run, though it was woken, before its duty is taken over.
const MISSES: u8 = 2;

/// A claim or a release under way. The queue of its client knows it from the first time it is found unanswered: the
/// runtime of its task may be one that nobody drives, and others of this client wait behind it.
pub(super) struct Duty {
    pub(super) claim: Arc<Claim>,
    pub(super) part: Part,
    state: AtomicU8,
    /// How often the task was woken since it was last run.
    misses: AtomicU8,
    waker: Mutex<Waker>,
}

const ACTIVE: u8 = 0;
const DONE: u8 = 1;
const TAKEN_OVER: u8 = 2;

impl Duty {
    /// A request that was found unanswered. `None` on tokio's clock, where nobody looks for tasks that are not run.
    pub(super) fn register(core: &Core, claim: &Arc<Claim>, part: Part, waker: &Waker) -> Option<Arc<Self>> {
        if core.clock.lives_in_the_runtime() {
            return None;
        }
        let (claim, waker) = (claim.clone(), Mutex::new(waker.clone()));
        let (state, misses) = (AtomicU8::new(ACTIVE), AtomicU8::new(0));
        let duty = Arc::new(Self { claim, part, state, misses, waker });
        local::register(core, &duty.claim.name, &duty);
        Some(duty)
    }

    pub(super) fn is_active(&self) -> bool {
        self.state.load(Ordering::Acquire) == ACTIVE
    }

    /// Its task runs.
    pub(super) fn runs(&self, waker: &Waker) {
        self.misses.store(0, Ordering::Relaxed);
        let mut known = locked(&self.waker);
        let former = (!known.will_wake(waker)).then(|| std::mem::replace(&mut *known, waker.clone()));
        drop(known);
        // With the mutex free again: a task may end with its last waker.
        drop(former);
    }

    /// The task is done with it. False if somebody else has taken it over.
    pub(super) fn finish(&self) -> bool {
        self.leave(DONE)
    }

    /// Wakes the task, to see whether it is run. True if it was woken often enough in vain, and this took the duty over.
    pub(super) fn take_over(&self) -> bool {
        if self.misses.fetch_add(1, Ordering::Relaxed) >= MISSES {
            return self.leave(TAKEN_OVER);
        }
        let waker = locked(&self.waker).clone();
        waker.wake();
        false
    }

    fn leave(&self, state: u8) -> bool {
        self.state.compare_exchange(ACTIVE, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
