//! A request that the queue of a client waits for. The sweeper can take it over from a task that is not
//! polled any more.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;

use super::{ClaimRole, PendingRelease};
use crate::engine::Claim;
use crate::poison::lock_ignoring_poison;

/// How many wake-ups the task may miss before its request is taken over.
const MISSES: u8 = 2;
/// The number of checks after which the request of a task that is not polled is taken over.
pub(super) const CHECKS: u8 = MISSES + 1;

/// A task's claim or release that the queue of its client waits for. The queue learns of it when the request
/// is first found unanswered: the runtime of that task may not be driven any more.
pub(in crate::core) struct InFlight {
    pub(in crate::core) claim: Arc<Claim>,
    pub(in crate::core) role: ClaimRole,
    purpose: Purpose,
    /// How tasks that try see this request, once no task waits for it.
    pending: OnceLock<Arc<PendingRelease>>,
    state: AtomicU8,
    /// How often the task was woken since it was last polled.
    misses: AtomicU8,
    task: Mutex<RequestingTask>,
}

/// The purpose of the requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum Purpose {
    /// To get the lock.
    Claim,
    /// To release it.
    Release,
}

/// A request that can be aborted while its task is not polled.
pub(in crate::core) trait Abort: Send + Sync {
    /// Removes the request, unless its task is polling it or `may` refuses.
    fn abort(&self, may: &dyn Fn() -> bool) -> Option<Aborted>;
}

/// The removed request: a value that only needs to be dropped.
pub(in crate::core) type Aborted = Option<Box<dyn Send>>;

/// The task that waits for the answer, and its request.
#[derive(Default)]
struct RequestingTask {
    waker: Option<Waker>,
    request: Option<Arc<dyn Abort>>,
}

const ACTIVE: u8 = 0;
const DONE: u8 = 1;
const TAKEN_OVER: u8 = 2;

impl InFlight {
    /// A request that was found unanswered. The caller registers it with the queue.
    pub(in crate::core) fn new(
        claim: &Arc<Claim>,
        role: ClaimRole,
        purpose: Purpose,
        waker: &Waker,
        request: Option<Arc<dyn Abort>>,
    ) -> Arc<Self> {
        let task = Mutex::new(RequestingTask { waker: Some(waker.clone()), request });
        let (state, misses) = (AtomicU8::new(ACTIVE), AtomicU8::new(0));
        let (claim, pending) = (claim.clone(), OnceLock::new());
        Arc::new(Self { claim, role, purpose, pending, state, misses, task })
    }

    /// Whether its task tries to get the lock.
    pub(super) fn is_claim(&self) -> bool {
        self.purpose == Purpose::Claim
    }

    /// Sets the release that tasks wait for, for the code that takes the request over.
    pub(in crate::core) fn set_pending_release(&self, pending: &Arc<PendingRelease>) {
        let _ = self.pending.set(pending.clone());
    }

    pub(in crate::core) fn pending_release(&self) -> Option<Arc<PendingRelease>> {
        self.pending.get().cloned()
    }

    pub(in crate::core) fn is_active(&self) -> bool {
        self.state.load(Ordering::Acquire) == ACTIVE
    }

    /// Called when the task runs and is about to poll `request`. False if the request was taken over: the
    /// task must not send anything then.
    pub(in crate::core) fn begin_poll(&self, waker: &Waker, request: Option<Arc<dyn Abort>>) -> bool {
        self.misses.store(0, Ordering::Relaxed);
        let mut task = lock_ignoring_poison(&self.task);
        // Under the mutex that a take-over holds: either the take-over finds this request, or this call sees
        // the take-over.
        if !self.is_active() {
            return false;
        }
        let is_known = task.waker.as_ref().is_some_and(|known| known.will_wake(waker));
        let former_waker = if is_known { None } else { task.waker.replace(waker.clone()) };
        let former_request = std::mem::replace(&mut task.request, request);
        drop(task);
        // Dropped after the mutex is unlocked: dropping the last waker of a task may drop the task.
        drop((former_waker, former_request));
        true
    }

    /// Called when the task needs the request no more. False if it was taken over.
    pub(in crate::core) fn finish(&self) -> bool {
        let is_done = self.leave(DONE);
        // Two statements: the waker must not be dropped while the mutex or the client's queue is locked.
        let task = std::mem::take(&mut *lock_ignoring_poison(&self.task));
        drop(task);
        is_done
    }

    /// Wakes the task, to see whether it runs. True if it missed enough wake-ups and this call took the
    /// request over. The request is dropped then, before anything else is sent for its claim: engines rely on
    /// that order.
    pub(in crate::core) fn take_over(&self) -> bool {
        if self.misses.fetch_add(1, Ordering::Relaxed) < MISSES {
            let waker = lock_ignoring_poison(&self.task).waker.clone();
            waker.into_iter().for_each(Waker::wake);
            return false;
        }
        let task = lock_ignoring_poison(&self.task);
        let aborted = match &task.request {
            Some(request) => request.abort(&|| self.leave(TAKEN_OVER)),
            None => self.leave(TAKEN_OVER).then_some(None),
        };
        drop(task);
        aborted.is_some()
    }

    fn leave(&self, state: u8) -> bool {
        self.state.compare_exchange(ACTIVE, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
