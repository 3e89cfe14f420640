//! A request that the queue of a client waits for. It can be taken over from a task that is not polled any
//! more.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::task::{Context, Poll, Waker};

use super::active::Part;
use super::pending_release::PendingRelease;
use super::{Core, local};
use crate::engine::{Boxed, Claim};
use crate::poison::lock_ignoring_poison;

/// How many wake-ups the task may miss before its duty is taken over.
const MISSES: u8 = 2;
/// The number of checks after which the duty of a task that is not polled is taken over.
pub(super) const CHECKS: u8 = MISSES + 1;

/// A task's claim or release that the queue of its client waits for. The queue learns of it when its request
/// is first found unanswered: the runtime of that task may not be driven any more.
pub(super) struct Duty {
    pub(super) claim: Arc<Claim>,
    pub(super) part: Part,
    purpose: Purpose,
    /// What tasks that try see of it, once no task waits for it.
    pending: OnceLock<Arc<PendingRelease>>,
    state: AtomicU8,
    /// How often the task was woken since it was last polled.
    misses: AtomicU8,
    task: Mutex<Task>,
}

/// The purpose of its requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To get the lock.
    Claim,
    /// To give it back.
    Release,
}

/// The task that has the duty, and its request in flight.
#[derive(Default)]
struct Task {
    waker: Option<Waker>,
    request: Option<Arc<dyn Seize>>,
}

const ACTIVE: u8 = 0;
const DONE: u8 = 1;
const TAKEN_OVER: u8 = 2;

impl Duty {
    /// Registers a duty whose request was found unanswered.
    pub(super) fn register(
        core: &Core,
        claim: &Arc<Claim>,
        part: Part,
        purpose: Purpose,
        waker: &Waker,
        request: Option<Arc<dyn Seize>>,
    ) -> Arc<Self> {
        let task = Mutex::new(Task { waker: Some(waker.clone()), request });
        let (state, misses) = (AtomicU8::new(ACTIVE), AtomicU8::new(0));
        let (claim, pending) = (claim.clone(), OnceLock::new());
        let duty = Arc::new(Self { claim, part, purpose, pending, state, misses, task });
        local::register(core, &duty);
        duty
    }

    /// Whether its task tries to get the lock.
    pub(super) fn is_claim(&self) -> bool {
        self.purpose == Purpose::Claim
    }

    /// Lets whatever takes the duty over know of the release that tasks wait for.
    pub(super) fn set_pending_release(&self, pending: &Arc<PendingRelease>) {
        let _ = self.pending.set(pending.clone());
    }

    pub(super) fn pending_release(&self) -> Option<Arc<PendingRelease>> {
        self.pending.get().cloned()
    }

    pub(super) fn is_active(&self) -> bool {
        self.state.load(Ordering::Acquire) == ACTIVE
    }

    /// Called when the task runs and is about to poll `request`. False if the duty was taken over: the task
    /// must not send anything then.
    pub(super) fn runs(&self, waker: &Waker, request: Option<Arc<dyn Seize>>) -> bool {
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

    /// Called when the task has finished the duty. False if it was taken over.
    pub(super) fn finish(&self) -> bool {
        let is_done = self.leave(DONE);
        // Two statements: the waker must not be dropped while the mutex or the client's queue is locked.
        let task = std::mem::take(&mut *lock_ignoring_poison(&self.task));
        drop(task);
        is_done
    }

    /// Wakes the task, to see whether it runs. True if it missed enough wake-ups and this call took the duty
    /// over. The request is dropped then, before anything else is sent for its claim: engines rely on that
    /// order.
    pub(super) fn take_over(&self) -> bool {
        if self.misses.fetch_add(1, Ordering::Relaxed) < MISSES {
            let waker = lock_ignoring_poison(&self.task).waker.clone();
            waker.into_iter().for_each(Waker::wake);
            return false;
        }
        let task = lock_ignoring_poison(&self.task);
        let seized = match &task.request {
            Some(request) => request.seize(&|| self.leave(TAKEN_OVER)),
            None => self.leave(TAKEN_OVER).then_some(None),
        };
        drop(task);
        seized.is_some()
    }

    fn leave(&self, state: u8) -> bool {
        self.state.compare_exchange(ACTIVE, state, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A value that only needs to be dropped.
type Dropped = Option<Box<dyn Send>>;

/// A request that can be taken away from its task.
pub(super) trait Seize: Send + Sync {
    /// Takes the request, unless its task is polling it or `may` refuses.
    fn seize(&self, may: &dyn Fn() -> bool) -> Option<Dropped>;
}

/// A request that its task polls until the sweeper takes it away.
pub(super) struct Seizable<T>(Mutex<Option<Boxed<T>>>);

impl<T: 'static> Seizable<T> {
    pub(super) fn new(request: Boxed<T>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(request))))
    }

    /// `None`: the request was taken away.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut request = lock_ignoring_poison(&self.0);
        let Some(polled) = &mut *request else { return Poll::Ready(None) };
        let answer = std::task::ready!(polled.as_mut().poll(context));
        let done = request.take();
        drop(request);
        drop(done);
        Poll::Ready(Some(answer))
    }
}

impl<T: 'static> Seize for Seizable<T> {
    fn seize(&self, may: &dyn Fn() -> bool) -> Option<Dropped> {
        let mut request = match self.0.try_lock() {
            Ok(request) => request,
            Err(TryLockError::Poisoned(request)) => request.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        may().then(|| request.take().map(|request| Box::new(request) as Box<dyn Send>))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_and_never_polled_again() {
        let request = Seizable::new(Box::pin(std::future::pending::<u8>()));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(request.poll(context).is_pending());
        assert!(request.seize(&|| false).is_none(), "the task was faster");
        assert!(request.poll(context).is_pending());
        assert!(request.seize(&|| true).is_some_and(|taken| taken.is_some()));
        assert_eq!(request.poll(context), Poll::Ready(None));
    }

    #[test]
    fn a_request_that_is_being_polled_is_not_taken() {
        let request = Seizable::new(Box::pin(std::future::ready(7)));
        let polling = lock_ignoring_poison(&request.0);
        assert!(request.seize(&|| panic!("it must not even ask")).is_none());
        drop(polling);
        assert_eq!(request.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Some(7)));
    }
}
