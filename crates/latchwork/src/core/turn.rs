//! The turn of a task that waits in the queue of its client, and the slot in which it is offered.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::grip::Grip;
use super::ticket::Ticket;
use crate::locked::locked;

/// What a task gets when its turn comes.
pub(crate) enum Turn {
    /// The duty to fetch the lock.
    Drive(Ticket),
    /// The lock.
    Pass(Grip),
}

/// Where the turn of one waiting task is put. The task takes it out when it is polled; until then it can be taken back,
/// because nobody may ever run that task again.
#[derive(Default)]
pub(super) struct TurnSlot {
    state: Mutex<State>,
    /// Whether a turn is in it, to be read without the mutex.
    is_offered: AtomicBool,
}

enum State {
    Waiting(Option<Waker>),
    Offered {
        turn: Turn,
        /// Whether the sweeper has found it untaken before.
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

/// What was left in the slot of a task that is gone.
pub(super) enum Closed {
    /// A turn that it did not take.
    WithTurn(Turn),
    /// Its turn was taken back, perhaps after it was looked for among those.
    Stalled,
    Empty,
}

/// What a task finds in its slot.
pub(super) enum Found {
    Turn(Turn),
    /// It was not run in time, and has to stand in the queue again.
    Stalled,
}

impl TurnSlot {
    /// Puts the turn in. Only for a task that waits; returns its waker, to be woken once no mutex is held.
    pub(super) fn offer(&self, turn: Turn) -> Option<Waker> {
        let mut state = locked(&self.state);
        self.is_offered.store(true, Ordering::Release);
        match std::mem::replace(&mut *state, State::Offered { turn, seen: false }) {
            State::Waiting(waker) => waker,
            _ => unreachable!("only a waiting task is offered a turn"),
        }
    }

    /// Whether a turn is in it that nobody has taken.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    /// Takes back a turn that was found untaken twice.
    pub(super) fn take_back(&self) -> Option<Turn> {
        let mut state = locked(&self.state);
        match &mut *state {
            State::Offered { seen: seen @ false, .. } => {
                *seen = true;
                None
            }
            State::Offered { .. } => self.take(&mut state, State::Stalled),
            _ => None,
        }
    }

    /// The task stands in the queue again.
    pub(super) fn wait_again(&self, waker: &Waker) {
        *locked(&self.state) = State::Waiting(Some(waker.clone()));
    }

    /// The task is gone.
    pub(super) fn close(&self) -> Closed {
        let mut state = locked(&self.state);
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
        let mut state = locked(&self.state);
        match &mut *state {
            State::Waiting(Some(waker)) if waker.will_wake(context.waker()) => Poll::Pending,
            State::Waiting(waker) => {
                let former = waker.replace(context.waker().clone());
                drop(state);
                // With the mutex free again: a task may end with its last waker.
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
