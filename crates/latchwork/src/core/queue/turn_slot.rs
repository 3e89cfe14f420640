//! The slot in which a waiting task is offered its turn.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::DriveRight;
use crate::poison::lock_ignoring_poison;

/// The value that a task receives when its turn comes.
#[must_use]
pub(crate) enum Turn<H> {
    /// The task must get the lock from the server.
    Drive(DriveRight),
    /// The task receives the held claim.
    Pass(H),
}

/// The slot for the turn of one waiting task. The task takes the turn when it is polled. Until then the turn
/// can be taken back, because that task may never be polled again.
pub(in crate::core) struct TurnSlot<H> {
    state: Mutex<SlotState<H>>,
    /// Whether the slot has a turn. Readable without the mutex.
    is_offered: AtomicBool,
}

enum SlotState<H> {
    Waiting(Option<Waker>),
    Offered {
        turn: Turn<H>,
        /// Whether the sweeper has already found the turn untaken once.
        seen: bool,
    },
    /// The turn was taken back.
    Stalled,
    Closed,
}

/// The content of the slot when its task is gone.
pub(in crate::core) enum ClosedSlot<H> {
    /// A turn that the task did not take.
    WithTurn(Turn<H>),
    /// The turn was taken back, perhaps after the task was looked up among the stalled ones.
    Stalled,
    Empty,
}

/// The content of the slot when its task is polled.
pub(in crate::core) enum SlotEvent<H> {
    Turn(Turn<H>),
    /// The task was not polled in time, and must queue again.
    Stalled,
}

impl<H> Default for TurnSlot<H> {
    fn default() -> Self {
        Self { state: Mutex::new(SlotState::Waiting(None)), is_offered: AtomicBool::new(false) }
    }
}

impl<H> TurnSlot<H> {
    /// Puts the turn into the slot. Only for a waiting task. Returns its waker, which must be woken after all
    /// mutexes are unlocked.
    pub(super) fn offer(&self, turn: Turn<H>) -> Option<Waker> {
        let mut state = lock_ignoring_poison(&self.state);
        self.is_offered.store(true, Ordering::Release);
        match std::mem::replace(&mut *state, SlotState::Offered { turn, seen: false }) {
            SlotState::Waiting(waker) => waker,
            _ => unreachable!("only a waiting task is offered a turn"),
        }
    }

    /// Whether the slot has a turn that was not taken.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    /// Takes back a turn that was found untaken twice.
    pub(super) fn take_back(&self) -> Option<Turn<H>> {
        let mut state = lock_ignoring_poison(&self.state);
        match &mut *state {
            SlotState::Offered { seen: seen @ false, .. } => {
                *seen = true;
                None
            }
            SlotState::Offered { .. } => self.take(&mut state, SlotState::Stalled),
            _ => None,
        }
    }

    /// Called when the task queues again.
    pub(super) fn wait_again(&self, waker: &Waker) {
        *lock_ignoring_poison(&self.state) = SlotState::Waiting(Some(waker.clone()));
    }

    /// Called when the task is gone.
    pub(in crate::core) fn close(&self) -> ClosedSlot<H> {
        let mut state = lock_ignoring_poison(&self.state);
        self.is_offered.store(false, Ordering::Release);
        let former = std::mem::replace(&mut *state, SlotState::Closed);
        drop(state);
        match former {
            SlotState::Offered { turn, .. } => ClosedSlot::WithTurn(turn),
            SlotState::Stalled => ClosedSlot::Stalled,
            SlotState::Waiting(_) | SlotState::Closed => ClosedSlot::Empty,
        }
    }

    pub(in crate::core) fn poll(&self, context: &Context<'_>) -> Poll<SlotEvent<H>> {
        let mut state = lock_ignoring_poison(&self.state);
        match &mut *state {
            SlotState::Waiting(Some(waker)) if waker.will_wake(context.waker()) => Poll::Pending,
            SlotState::Waiting(waker) => {
                let former = waker.replace(context.waker().clone());
                drop(state);
                // Dropped after the mutex is unlocked: dropping the last waker of a task may drop the task.
                drop(former);
                Poll::Pending
            }
            SlotState::Stalled => Poll::Ready(SlotEvent::Stalled),
            _ => match self.take(&mut state, SlotState::Closed) {
                Some(turn) => Poll::Ready(SlotEvent::Turn(turn)),
                None => unreachable!("polled after it was ready"),
            },
        }
    }

    fn take(&self, state: &mut SlotState<H>, next: SlotState<H>) -> Option<Turn<H>> {
        self.is_offered.store(false, Ordering::Release);
        match std::mem::replace(state, next) {
            SlotState::Offered { turn, .. } => Some(turn),
            _ => None,
        }
    }
}
