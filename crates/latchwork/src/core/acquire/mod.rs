//! One attempt to get a lock: the I/O around the pure state machine.
//!
//! This room uses `queue`, `background` and `held`. None of them calls it.

mod machine;
#[cfg(all(test, feature = "memory"))]
mod tests;
mod ticket;
mod turn;
mod wait_report;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use self::machine::{AcquireAttempt, End, Failed, NextStep};
use self::ticket::Ticket;
use self::turn::{QueueOutcome, wait_turn};
use self::wait_report::WaitReport;
use super::background::{LimitedRequest, Shield, ShieldedWork, may_hold_until};
use super::held::LocalLease;
use super::queue::LocalBlocker;
use super::terms::{LockTerms, WaitUntil};
use super::{Core, HeldClaim, defaults};
use crate::clock::Moment;
use crate::engine::{BoxedVerdict, Busy, Claim, Note, Wake};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// The end of an attempt.
pub(crate) enum AcquireOutcome {
    /// The lock is held.
    Held(HeldClaim),
    /// The attempt did not get the lock within the caller's wait limit.
    NotHeld {
        /// The reason.
        blocker: Blocker,
        /// Until when this attempt may hold it all the same, if its claim could not be withdrawn.
        left: Option<Moment>,
    },
}

/// The reason why an attempt did not get the lock.
#[derive(Debug)]
pub(crate) enum Blocker {
    /// Another client, if the engine names it.
    Elsewhere(Option<Note>),
    /// The server grants no locks now, and the note says why.
    Quarantine(Option<Note>),
    /// A task of this client holds it.
    Task,
    /// A task of this client waits for it, or asks the server for it, ahead of this attempt.
    WaitingTask,
}

impl From<LocalBlocker> for Blocker {
    fn from(blocker: LocalBlocker) -> Self {
        match blocker {
            LocalBlocker::Holder => Self::Task,
            LocalBlocker::Waiter => Self::WaitingTask,
        }
    }
}

/// Gets the lock, or gives up at the wait limit and leaves nothing behind, also when dropped at any await.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    name: &LockName,
    terms: &Arc<LockTerms>,
    wait: WaitUntil,
) -> Result<AcquireOutcome> {
    let mut report = WaitReport::new(core, name, wait);
    let outcome = core.telemetry.around(name, attempt(&mut report, terms)).await;
    report.ended(&outcome);
    outcome
}

async fn attempt(report: &mut WaitReport<'_>, terms: &Arc<LockTerms>) -> Result<AcquireOutcome> {
    loop {
        match wait_turn(report, terms).await? {
            // Boxed, so that the many tasks that only wait in line stay small.
            QueueOutcome::Drive(ticket) => {
                if let Some(outcome) = Box::pin(drive(report, ticket, terms)).await? {
                    return Ok(outcome);
                }
            }
            QueueOutcome::Held(held) if held.lease().lease_loss_now().is_none() => {
                return Ok(AcquireOutcome::Held(held));
            }
            // Lost on the way, while this task was kept from running: it is released, and the task queues
            // again.
            QueueOutcome::Held(_) => {}
            QueueOutcome::Blocked(blocker) => {
                return Ok(AcquireOutcome::NotHeld { blocker: blocker.into(), left: None });
            }
        }
    }
}

/// `None` if this task was not polled for so long that other tasks went on without it. It must then queue
/// again.
async fn drive(
    report: &mut WaitReport<'_>,
    mut ticket: Ticket,
    terms: &LockTerms,
) -> Result<Option<AcquireOutcome>> {
    let (core, wait) = (report.core, report.wait);
    let claim = ticket.claim(terms, wait);
    ticket.let_readers_finish(terms, wait).await;
    let [jitter, ..] = *claim.id.as_bytes();
    let mut now = core.clock.now();
    let (mut attempt, mut step) = AcquireAttempt::new(wait, terms.lease, jitter, now);
    let mut busy = None;
    // The newest failure since the last answer to a claim.
    let mut failure = None;
    loop {
        if ticket.was_taken_over() {
            return Ok(None);
        }
        step = match step {
            NextStep::Claim => {
                attempt.sending(now);
                let request = send_claim(core, &claim, ticket, now);
                let answered = match attempt.answer_by() {
                    None => Some(request.await),
                    // Boxed, like everything that a free lock does not need: this future is allocated for
                    // every claim.
                    Some(limit) => Box::pin(core.until(limit, request)).await,
                };
                let Some((answer, returned)) = answered else {
                    // The ticket went into the background with the claim, and undoes it when that ends.
                    let left = Some(may_hold_until(&claim, attempt.ends_by()));
                    return Err(complete(super::no_answer_in_time(), left, core, &claim));
                };
                ticket = returned;
                now = core.clock.now();
                let step = attempt.answered(now, answer.as_ref().map_err(failed));
                let (waits, was_failing) =
                    (matches!(step, NextStep::Wait(_) | NextStep::Pause(_)), failure.is_some());
                failure = match answer {
                    Ok(BoxedVerdict::Granted(_)) => None,
                    Ok(BoxedVerdict::Busy(answer)) => {
                        if waits {
                            report.busy(terms, &answer, busy.as_deref(), was_failing);
                        }
                        busy = Some(answer);
                        None
                    }
                    Err(error) => {
                        if waits {
                            let since = attempt.failing_since().unwrap_or(now);
                            report.failing(terms, &error, since, !was_failing);
                        }
                        Some(error)
                    }
                };
                step
            }
            NextStep::Wait(until) => {
                let wake = Box::pin(wait_for_wake(core, &mut ticket, &claim, busy.as_deref(), until)).await;
                now = core.clock.now();
                attempt.woken(now, wake.as_ref().map(|wake| wake.as_ref().map_err(failed)))
            }
            NextStep::Pause(until) => {
                Box::pin(ticket.run(core.clock.sleep_until(until))).await;
                now = core.clock.now();
                attempt.woken(now, None)
            }
            NextStep::Hold { token, mut lease } => {
                if lease.deadline() < now.after(defaults::less_drift(terms.at_least)) {
                    now = Box::pin(ticket.run(lengthen(core, &claim, &mut lease))).await;
                }
                if let Some(why) = lease.found_lost() {
                    let is_withdrawn = Box::pin(ticket.withdraw_lost()).await;
                    let left = (!is_withdrawn).then(|| may_hold_until(&claim, core.clock.now()));
                    let message = format!("it was granted, and lost before it could be kept: {why}");
                    return Err(complete(Error::new(ErrorKind::Lost, message), left, core, &claim));
                }
                let begin = |granted| HeldClaim::begin(granted, token, lease, terms, now);
                return Ok(ticket.into_granted().map(begin).map(AcquireOutcome::Held));
            }
            NextStep::Withdraw(end) => {
                let is_withdrawn = Box::pin(ticket.withdraw()).await;
                let left = (!is_withdrawn).then(|| may_hold_until(&claim, core.clock.now()));
                return give_up(end, busy, failure, left)
                    .map(Some)
                    .map_err(|error| complete(error, left, core, &claim));
            }
            NextStep::Stop(end) => {
                ticket.forget_claim();
                return give_up(end, busy, failure, None)
                    .map(Some)
                    .map_err(|error| complete(error, None, core, &claim));
            }
        }
    }
}

/// Renews a lock that was handed over, because its lease is short until its first renewal. A lock that is to
/// be kept for a while needs a lease that outlives a crash of its holder. Returns the time of the answer.
async fn lengthen(core: &Core, claim: &Arc<Claim>, lease: &mut LocalLease) -> Moment {
    let sent = core.clock.now();
    let renewing = core.engine.clone().renew(vec![claim.clone()]);
    let answers = core.until(sent.after(lease.renewal_timeout(sent)), renewing).await;
    let now = core.clock.now();
    lease.renewed(sent, now, answers.and_then(|answers| answers.into_iter().next()?.ok()));
    now
}

/// One `claim`, shielded: if the caller goes away, the request still ends, and the ticket then releases the
/// claim. The request also ends when the engine never answers; otherwise no task of this client would get the
/// lock again.
fn send_claim(core: &Arc<Core>, claim: &Arc<Claim>, mut ticket: Ticket, now: Moment) -> Shield<ClaimRequest> {
    let request = core.answer(core.engine.clone().claim(claim.clone()), now);
    let was_sent = ticket.sends();
    Shield::new(core, ClaimRequest { request, ticket: Some(ticket), was_sent })
}

/// A claim under way.
struct ClaimRequest {
    request: LimitedRequest<BoxedVerdict>,
    ticket: Option<Ticket>,
    /// Whether the server may know the claim from an earlier request.
    was_sent: bool,
}

impl Future for ClaimRequest {
    type Output = (Result<BoxedVerdict>, Ticket);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { request, ticket: held, was_sent } = &mut *self;
        let ticket = held.as_mut().expect("polled after it was ready");
        let answer = if !ticket.begin_poll(cx.waker(), || request.share()) {
            Err(super::no_answer())
        } else {
            let Poll::Ready(answer) = Pin::new(&mut *request).poll(cx) else {
                ticket.wait(cx.waker(), || request.share());
                return Poll::Pending;
            };
            answer
        };
        match answer.as_ref().map_err(Error::effect) {
            Ok(_) => {}
            Err(Effect::Unknown) => ticket.expect_strays(),
            Err(Effect::None) => ticket.did_nothing(*was_sent),
        }
        let ticket = held.take().expect("it was just there");
        Poll::Ready((answer, ticket))
    }
}

impl ShieldedWork for ClaimRequest {
    const ADOPTED_LIMIT: Duration = defaults::REQUEST_LIMIT;

    fn abandoned(&mut self) {
        self.ticket.iter_mut().for_each(Ticket::abandon);
    }
}

impl Drop for ClaimRequest {
    fn drop(&mut self) {
        // The claim was sent, and the server may still carry it out after the ticket's release.
        if let Some(ticket) = &mut self.ticket {
            ticket.expect_strays();
        }
    }
}

/// One `wait`; `None` if it took until `until`. It may be dropped at any point (C6), so it needs no shield.
async fn wait_for_wake(
    core: &Core,
    ticket: &mut Ticket,
    claim: &Arc<Claim>,
    busy: Option<&Busy>,
    until: Moment,
) -> Option<Result<Wake>> {
    let busy = busy.cloned().unwrap_or_else(|| Busy::new(Duration::ZERO));
    let waiting = ticket.run_request(core.engine.clone().wait(claim.clone(), busy));
    core.until(until, waiting).await.flatten()
}

fn failed(error: &Error) -> Failed {
    Failed { effect: error.effect(), is_transient: error.kind() == ErrorKind::Unreachable }
}

fn give_up(
    end: End,
    busy: Option<Box<Busy>>,
    failure: Option<Error>,
    left: Option<Moment>,
) -> Result<AcquireOutcome> {
    match (end, failure) {
        (End::Busy | End::TimedOut, None) => {
            let is_quarantine = busy.as_ref().is_some_and(|busy| busy.quarantine.is_some());
            let holder = busy.and_then(|busy| busy.holder).map(|holder| holder.note);
            let blocker =
                if is_quarantine { Blocker::Quarantine(holder) } else { Blocker::Elsewhere(holder) };
            Ok(AcquireOutcome::NotHeld { blocker, left })
        }
        (End::TooLate, _) => {
            let message = "the engine answered too late for this ttl; raise ttl or look at the engine's load";
            Err(Error::new(ErrorKind::Unreachable, message))
        }
        (_, Some(failure)) => Err(failure),
        (_, None) => Err(super::no_answer()),
    }
}

/// Completes the error: the claim may be left behind until `left` at the latest, or nothing is left.
fn complete(error: Error, left: Option<Moment>, core: &Core, claim: &Claim) -> Error {
    match left {
        Some(until) => error.with_effect(Effect::Unknown).may_be_held(until, core.clock.now()),
        None => error.with_effect(Effect::None),
    }
    .about(&claim.name)
}
