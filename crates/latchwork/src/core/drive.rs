//! Drives one attempt: the shell of I/O around the pure machine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::grip::Grip;
use super::lease::Lease;
use super::local::{Stood, stand_in_line};
use super::machine::{Attempt, End, Failed, Step};
use super::request::Request;
use super::shield::{Shield, Work};
use super::turn::Turn;
use super::watched::Watched;
use super::{Core, Patience, Tenure, Terms, Ticket, defaults};
use crate::clock::Moment;
use crate::engine::{BoxedVerdict, Busy, Claim, Note, Wake};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// What an attempt came to.
pub(crate) enum Outcome {
    /// The lock is held.
    Held(Grip),
    /// It was not to be had within the caller's patience.
    NotHeld {
        /// Why not.
        holder: Holder,
        /// Until when this attempt may hold it all the same, if its claim could not be withdrawn.
        left: Option<Moment>,
    },
}

/// The reason why an attempt did not get the lock.
#[derive(Debug)]
pub(crate) enum Holder {
    /// Another client, if the engine names it.
    Elsewhere(Option<Note>),
    /// Nobody: the server grants no locks now, and the note says why.
    Quarantine(Option<Note>),
    /// A task of this client holds it.
    Task,
    /// A task of this client waits for it, or asks the server for it, ahead of this attempt.
    WaitingTask,
}

/// Gets the lock, or gives up within `patience` and leaves nothing behind, also when dropped at any await.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    name: &LockName,
    terms: &Arc<Terms>,
    patience: Patience,
) -> Result<Outcome> {
    let mut watched = Watched::new(core, name, patience);
    let outcome = core.telemetry.around(name, attempt(&mut watched, terms)).await;
    watched.ended(&outcome);
    outcome
}

async fn attempt(watched: &mut Watched<'_>, terms: &Arc<Terms>) -> Result<Outcome> {
    loop {
        match stand_in_line(watched, terms).await? {
            // Boxed, so that the many who only stand in line stay small.
            Stood::Turn(Turn::Drive(ticket)) => {
                if let Some(outcome) = Box::pin(drive(watched, ticket, terms)).await? {
                    return Ok(outcome);
                }
            }
            Stood::Turn(Turn::Pass(grip)) if grip.hold().lease_loss_now().is_none() => {
                return Ok(Outcome::Held(grip));
            }
            // Lost on the way, while this task was kept from running: given back, and stood for again.
            Stood::Turn(Turn::Pass(_)) => {}
            Stood::InVain(holder) => return Ok(Outcome::NotHeld { holder, left: None }),
        }
    }
}

/// `None` if this task was not polled for so long that other tasks went on without it. It must then queue
/// again.
async fn drive(watched: &mut Watched<'_>, mut ticket: Ticket, terms: &Terms) -> Result<Option<Outcome>> {
    let (core, patience) = (watched.core, watched.patience);
    let claim = ticket.claim(terms, patience);
    ticket.let_readers_finish(terms, patience).await;
    let [jitter, ..] = *claim.id.as_bytes();
    let mut now = core.clock.now();
    let (mut attempt, mut step) = Attempt::new(patience, terms.lease, jitter, now);
    let mut busy = None;
    // The newest failure since the last answer to a claim.
    let mut failure = None;
    loop {
        if ticket.was_taken_over() {
            return Ok(None);
        }
        step = match step {
            Step::Ask => {
                attempt.asking(now);
                let asking = ask(core, &claim, ticket, now);
                let asked = match attempt.answer_by() {
                    None => Some(asking.await),
                    // Boxed, like all that a free lock does not need: this future is allocated for every claim.
                    Some(limit) => Box::pin(core.until(limit, asking)).await,
                };
                let Some((answer, returned)) = asked else {
                    // The ticket went into the background with the claim, and undoes it when that ends.
                    let left = Some(may_hold_until(&claim, attempt.ends_by()));
                    return Err(complete(super::no_answer_in_time(), left, core, &claim));
                };
                ticket = returned;
                now = core.clock.now();
                let step = attempt.answered(now, answer.as_ref().map_err(failed));
                let (waits, was_failing) =
                    (matches!(step, Step::Wait(_) | Step::Pause(_)), failure.is_some());
                failure = match answer {
                    Ok(BoxedVerdict::Granted(_)) => None,
                    Ok(BoxedVerdict::Busy(answer)) => {
                        if waits {
                            watched.busy(terms, &answer, busy.as_deref(), was_failing);
                        }
                        busy = Some(answer);
                        None
                    }
                    Err(error) => {
                        if waits {
                            let since = attempt.failing_since().unwrap_or(now);
                            watched.failing(terms, &error, since, !was_failing);
                        }
                        Some(error)
                    }
                };
                step
            }
            Step::Wait(until) => {
                let wake = Box::pin(wait(core, &mut ticket, &claim, busy.as_deref(), until)).await;
                now = core.clock.now();
                attempt.woken(now, wake.as_ref().map(|wake| wake.as_ref().map_err(failed)))
            }
            Step::Pause(until) => {
                Box::pin(ticket.run(core.clock.sleep_until(until))).await;
                now = core.clock.now();
                attempt.woken(now, None)
            }
            Step::Hold { token, mut lease } => {
                if lease.deadline() < now.after(defaults::less_drift(terms.at_least)) {
                    now = Box::pin(ticket.run(lengthen(core, &claim, &mut lease))).await;
                }
                if let Some(why) = lease.found_lost() {
                    let is_undone = Box::pin(ticket.withdraw_lost()).await;
                    let left = (!is_undone).then(|| may_hold_until(&claim, core.clock.now()));
                    let message = format!("it was granted, and lost before it could be kept: {why}");
                    return Err(complete(Error::new(ErrorKind::Lost, message), left, core, &claim));
                }
                return Ok(Tenure::begin(ticket, token, lease, terms, now).map(Outcome::Held));
            }
            Step::Undo(end) => {
                let is_undone = Box::pin(ticket.withdraw()).await;
                let left = (!is_undone).then(|| may_hold_until(&claim, core.clock.now()));
                return give_up(end, busy, failure, left)
                    .map(Some)
                    .map_err(|error| complete(error, left, core, &claim));
            }
            Step::Stop(end) => {
                ticket.forget_claim();
                return give_up(end, busy, failure, None)
                    .map(Some)
                    .map_err(|error| complete(error, None, core, &claim));
            }
        }
    }
}

/// A lock that was handed over has a short lease until its first renewal. If it is to be kept for a while, that is too short
/// for who might crash until then. Returns when that was.
async fn lengthen(core: &Core, claim: &Arc<Claim>, lease: &mut Lease) -> Moment {
    let sent = core.clock.now();
    let renewing = core.engine.clone().renew(vec![claim.clone()]);
    let answers = core.until(sent.after(lease.patience(sent)), renewing).await;
    let now = core.clock.now();
    lease.renewed(sent, now, answers.and_then(|answers| answers.into_iter().next()?.ok()));
    now
}

/// One `claim`, shielded: if the caller goes away, the request still ends, and the ticket then undoes it. It ends also
/// when the engine never answers, or nobody in this client would get the lock again.
fn ask(core: &Arc<Core>, claim: &Arc<Claim>, mut ticket: Ticket, now: Moment) -> Shield<Asking> {
    let request = core.answer(core.engine.clone().claim(claim.clone()), now);
    let was_sent = ticket.sends();
    Shield::new(core, Asking { request, ticket: Some(ticket), was_sent })
}

/// A claim under way.
struct Asking {
    request: Request<BoxedVerdict>,
    ticket: Option<Ticket>,
    /// Whether the server may know the claim from an earlier request.
    was_sent: bool,
}

impl Future for Asking {
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

impl Work for Asking {
    const ADOPTED_LIMIT: Duration = defaults::REQUEST_LIMIT;

    fn abandoned(&mut self) {
        self.ticket.iter_mut().for_each(Ticket::abandon);
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        // The claim was sent, and the server may still carry it out after the ticket's release.
        if let Some(ticket) = &mut self.ticket {
            ticket.expect_strays();
        }
    }
}

/// One `wait`; `None` if it took until `until`. It may be dropped at any point (C6), so it needs no shield.
async fn wait(
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
    Failed { effect: error.effect(), passing: error.kind() == ErrorKind::Unreachable }
}

fn give_up(
    end: End,
    busy: Option<Box<Busy>>,
    failure: Option<Error>,
    left: Option<Moment>,
) -> Result<Outcome> {
    match (end, failure) {
        (End::Busy | End::TimedOut, None) => {
            let is_quarantine = busy.as_ref().is_some_and(|busy| busy.quarantine.is_some());
            let holder = busy.and_then(|busy| busy.holder).map(|holder| holder.note);
            let holder = if is_quarantine { Holder::Quarantine(holder) } else { Holder::Elsewhere(holder) };
            Ok(Outcome::NotHeld { holder, left })
        }
        (End::TooLate, _) => {
            let message = "the engine answered too late for this ttl; raise ttl or look at the engine's load";
            Err(Error::new(ErrorKind::Unreachable, message))
        }
        (_, Some(failure)) => Err(failure),
        (_, None) => Err(super::no_answer()),
    }
}

/// Until when this attempt's claim may hold the lock, if it cannot be undone. The server counts the ttl from
/// the moment at which it carries out the request. The request was given up by `given_up`, and may be granted
/// at the very end of the claim's place in the queue.
pub(super) fn may_hold_until(claim: &Claim, given_up: Moment) -> Moment {
    claim.lease_over(given_up.after(defaults::LATE + claim.wait_lease))
}

/// Says what is left behind: `left` until then at the longest, or nothing at all.
fn complete(error: Error, left: Option<Moment>, core: &Core, claim: &Claim) -> Error {
    match left {
        Some(until) => error.with_effect(Effect::Unknown).may_be_held(until, core.clock.now()),
        None => error.with_effect(Effect::None),
    }
    .about(&claim.name)
}
