//! A task waits in the queue of its client until its turn comes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::ticket::Ticket;
use super::wait_report::WaitReport;
use crate::core::background::{hand_back, sweeper};
use crate::core::queue::{ClosedSlot, LocalBlocker, QueueAnswer, SlotEvent, Turn, TurnSlot};
use crate::core::terms::{LockTerms, WaitUntil};
use crate::core::{Core, HeldClaim, defaults, no_answer, no_answer_in_time};
use crate::{Error, ErrorKind, LockName, Result};

/// The end of a task's wait in the queue.
pub(super) enum QueueOutcome {
    /// The task must get the lock from the server.
    Drive(Ticket),
    /// The task received the held claim.
    Held(HeldClaim),
    /// It did not become this task's turn in time.
    Blocked(LocalBlocker),
}

/// Waits until it is this task's turn, or its wait limit passes.
///
/// # Errors
/// Only a release that failed, or stays unanswered, keeps the name closed; or the owner's guard is lost.
pub(super) async fn wait_turn(report: &mut WaitReport<'_>, terms: &Arc<LockTerms>) -> Result<QueueOutcome> {
    let WaitReport { core, name, wait, .. } = *report;
    let mut limit = None;
    let mut task = loop {
        match core.queues.enqueue(name, terms, wait) {
            QueueAnswer::Drive(right) => return Ok(QueueOutcome::Drive(Ticket::new(core, name, right))),
            QueueAnswer::Join(held) if terms.owner.is_none() => return Ok(QueueOutcome::Held(held)),
            QueueAnswer::Join(held) => return nest(held),
            QueueAnswer::Queued { arrival, slot } => {
                break QueuedTask { core, name, arrival, slot, is_served: false };
            }
            QueueAnswer::Busy(blocker) => {
                check_requests(core, name);
                return Ok(QueueOutcome::Blocked(blocker));
            }
            QueueAnswer::Closed(release) => {
                check_requests(core, name);
                // As long as any request may take, and once for all releases in the way.
                let limit = *limit.get_or_insert_with(|| core.clock.now().after(defaults::REQUEST_LIMIT));
                if !Box::pin(release.retry_until(core.clock, limit)).await {
                    return Err(release.error(core.clock.now(), name, no_answer));
                }
            }
        }
    };
    sweeper::start(core);
    report.queued_locally(terms);
    let turn = poll_fn(|context| task.poll(context));
    let turn = match wait {
        // Boxed, so that tasks that wait without a limit stay small: a timer is larger than the rest.
        WaitUntil::Moment(end) => Box::pin(core.until(end, turn)).await,
        _ => Some(turn.await),
    };
    match turn {
        Some(turn) => Ok(turn),
        None => match core.queues.blocker(name, terms.mode) {
            Ok(blocker) => Ok(QueueOutcome::Blocked(blocker)),
            Err(release) => Err(release.error(core.clock.now(), name, no_answer_in_time)),
        },
    }
}

/// Makes the sweeper check the tasks that keep this name closed, for a task that does not wait.
fn check_requests(core: &Arc<Core>, name: &LockName) {
    if core.queues.begin_checks(name) {
        sweeper::start(core);
    }
}

/// Another guard on a claim that its owner already holds. If that claim is lost, a wait for it could be a
/// wait of the task for itself.
fn nest(held: HeldClaim) -> Result<QueueOutcome> {
    match held.lease().loss() {
        None => Ok(QueueOutcome::Held(held)),
        Some(why) => {
            let message = format!("its owner's guard is lost ({why}); drop that guard first");
            Err(Error::new(ErrorKind::Lost, message).about(&held.lease().claim.name))
        }
    }
}

/// A task in the queue of its client. Its drop removes the task, and hands back a turn that it did not take.
struct QueuedTask<'a> {
    core: &'a Arc<Core>,
    name: &'a LockName,
    arrival: u64,
    slot: Arc<TurnSlot<HeldClaim>>,
    /// Whether its turn was taken: then the queue has no entry of it.
    is_served: bool,
}

impl QueuedTask<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<QueueOutcome> {
        loop {
            match std::task::ready!(self.slot.poll(context)) {
                SlotEvent::Turn(turn) => {
                    self.is_served = true;
                    return Poll::Ready(match turn {
                        Turn::Drive(right) => QueueOutcome::Drive(Ticket::new(self.core, self.name, right)),
                        Turn::Pass(held) => QueueOutcome::Held(held),
                    });
                }
                SlotEvent::Stalled => {
                    self.core.queues.requeue(self.name, self.arrival, context.waker());
                    sweeper::start(self.core);
                }
            }
        }
    }
}

impl Drop for QueuedTask<'_> {
    fn drop(&mut self) {
        if self.is_served {
            return;
        }
        self.core.queues.cancel(self.name, self.arrival);
        match self.slot.close() {
            ClosedSlot::WithTurn(Turn::Drive(right)) => hand_back(self.core, self.name, right),
            // Its drop passes the lock to the next task.
            ClosedSlot::WithTurn(Turn::Pass(held)) => drop(held),
            ClosedSlot::Stalled => drop(self.core.queues.cancel(self.name, self.arrival)),
            ClosedSlot::Empty => {}
        }
    }
}
