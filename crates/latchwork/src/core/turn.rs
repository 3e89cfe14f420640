//! The turn of a task in the queue of its client, and the slot in which the turn is offered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::grip::Grip;
use super::ticket::Ticket;
use crate::poison::lock_ignoring_poison;

/// The value that a task receives when its turn comes.
pub(crate) enum Turn {
    /// The task must get the lock from the server.
    Drive(Ticket),
    /// The task receives the held lock.
    Pass(Grip),
}

/// The slot for the turn of one waiting task. The task takes the turn when it is polled. Until then the turn
/// can be taken back, because that task may never be polled again.
#[derive(Default)]
pub(super) struct TurnSlot {
    state: Mutex<State>,
    /// Whether the slot has a turn. Readable without the mutex.
    is_offered: AtomicBool,
}

enum State {
    Waiting(Option<Waker>),
    Offered {
        turn: Turn,
        /// Whether the sweeper has already found the turn untaken once.
        seen: bool,
    },
    /// The turn was taken back.
    Stalled,
    Closed,
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

/// The content of the slot when its task is gone.
pub(super) enum Closed {
    /// A turn that the task did not take.
    WithTurn(Turn),
    /// The turn was taken back, perhaps after the task was looked up among the stalled ones.
    Stalled,
    Empty,
}

/// The content of the slot when its task is polled.
pub(super) enum Found {
    Turn(Turn),
    /// The task was not polled in time, and must queue again.
    Stalled,
}

impl TurnSlot {
    /// Puts the turn into the slot. Only for a waiting task. Returns its waker, which must be woken after all
    /// mutexes are unlocked.
    pub(super) fn offer(&self, turn: Turn) -> Option<Waker> {
        let mut state = lock_ignoring_poison(&self.state);
        self.is_offered.store(true, Ordering::Release);
        match std::mem::replace(&mut *state, State::Offered { turn, seen: false }) {
            State::Waiting(waker) => waker,
            _ => unreachable!("only a waiting task is offered a turn"),
        }
    }

    /// Whether the slot has a turn that was not taken.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    /// Takes back a turn that was found untaken twice.
    pub(super) fn take_back(&self) -> Option<Turn> {
        let mut state = lock_ignoring_poison(&self.state);
        match &mut *state {
            State::Offered { seen: seen @ false, .. } => {
                *seen = true;
                None
            }
            State::Offered { .. } => self.take(&mut state, State::Stalled),
            _ => None,
        }
    }

    /// Called when the task queues again.
    pub(super) fn wait_again(&self, waker: &Waker) {
        *lock_ignoring_poison(&self.state) = State::Waiting(Some(waker.clone()));
    }

    /// Called when the task is gone.
    pub(super) fn close(&self) -> Closed {
        let mut state = lock_ignoring_poison(&self.state);
        self.is_offered.store(false, Ordering::Release);
        let former = std::mem::replace(&mut *state, State::Closed);
        drop(state);
        match former {
            State::Offered { turn, .. } => Closed::WithTurn(turn),
            State::Stalled => Closed::Stalled,
            State::Waiting(_) | State::Closed => Closed::Empty,
        }
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Found> {
        let mut state = lock_ignoring_poison(&self.state);
        match &mut *state {
            State::Waiting(Some(waker)) if waker.will_wake(context.waker()) => Poll::Pending,
            State::Waiting(waker) => {
                let former = waker.replace(context.waker().clone());
                drop(state);
                // Dropped after the mutex is unlocked: dropping the last waker of a task may drop the task.
                drop(former);
                Poll::Pending
            }
            State::Stalled => Poll::Ready(Found::Stalled),
            _ => match self.take(&mut state, State::Closed) {
                Some(turn) => Poll::Ready(Found::Turn(turn)),
                None => unreachable!("polled after it was ready"),
            },
        }
    }

    fn take(&self, state: &mut State, next: State) -> Option<Turn> {
        self.is_offered.store(false, Ordering::Release);
        match std::mem::replace(state, next) {
            State::Offered { turn, .. } => Some(turn),
            _ => None,
        }
    }
}
