//! Drives one attempt: the shell of I/O around the pure machine.

use std::sync::Arc;

use super::local::{Turn, stand_in_line};
use super::machine::{Attempt, End, Step};
use super::shield::Shield;
use super::{Core, Patience, Tenure, Terms, Ticket};
use crate::clock::Moment;
use crate::engine::{Busy, Claim, ClaimState, Note, Verdict, Wake};
use crate::{Error, ErrorKind, LockName, Result};

/// What an attempt came to.
pub(crate) enum Outcome {
    /// The lock is held.
    Held(Tenure),
    /// It was not to be had within the caller's patience; who holds it, if that is known.
    NotHeld(Option<Note>),
}

/// Gets the lock, or gives up within `patience` and leaves nothing behind, also when dropped at any await.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    name: &LockName,
    terms: &Terms,
    patience: Patience,
) -> Result<Outcome> {
    let mut ticket = loop {
        match stand_in_line(core, name, terms, patience).await {
            Some(Turn::Drive(ticket)) => break ticket,
            Some(Turn::Pass(tenure)) if tenure.hold().loss().is_none() => return Ok(Outcome::Held(tenure)),
            // Lost on the way, while this task was kept from running: given back, and stood for again.
            Some(Turn::Pass(_)) => {}
            None => return Ok(Outcome::NotHeld(Some(Note::new("another task of this client")))),
        }
    };
    let claim = ticket.claim(terms);
    let (mut attempt, mut step) = Attempt::new(patience, terms.ttl, terms.stop_margin, core.clock.now());
    let mut busy = Busy::new(std::time::Duration::ZERO);
    let mut failure = None;
    loop {
        step = match step {
            Step::Ask => {
                attempt.asking(core.clock.now());
                let asked = core.until(attempt.answer_by(), ask(core, &claim, ticket)).await;
                let Some((answer, returned)) = asked else {
                    // The ticket went into the background with the claim, and undoes it when that ends.
                    return give_up(attempt.unanswered(core.clock.now()), busy.holder, None, &claim);
                };
                ticket = returned;
                let step = attempt.answered(core.clock.now(), answer.as_ref().map_err(Error::effect));
                match answer {
                    Ok(Verdict::Busy(answer)) => busy = answer,
                    Ok(Verdict::Granted(_)) => {}
                    Err(error) => failure = Some(error),
                }
                step
            }
            Step::Wait(until) => {
                let wake = wait(core, &claim, &busy, until).await;
                let step = attempt
                    .woken(core.clock.now(), wake.as_ref().map(|wake| wake.as_ref().map_err(Error::effect)));
                failure = wake.and_then(Result::err);
                step
            }
            Step::Pause(until) => {
                core.clock.sleep_until(until).await;
                attempt.woken(core.clock.now(), None)
            }
            Step::Hold { token, lease } => {
                return Ok(Outcome::Held(Tenure::begin(ticket, token, lease, terms)));
            }
            Step::Undo(end) => {
                ticket.withdraw().await;
                return give_up(end, busy.holder, failure, &claim);
            }
            Step::Stop(end) => {
                ticket.forget_claim();
                return give_up(end, busy.holder, failure, &claim);
            }
        }
    }
}

/// One `claim`, shielded: if the caller goes away, the request still ends, and the ticket then undoes it.
async fn ask(core: &Arc<Core>, claim: &Arc<Claim>, ticket: Ticket) -> (Result<Verdict>, Ticket) {
    let (engine, claim) = (core.engine.clone(), claim.clone());
    Shield::new(core, async move { (engine.claim(claim).await, ticket) }).await
}

/// One `wait`; `None` if it took until `until`. It may be dropped at any point (C6), so it needs no shield.
async fn wait(core: &Core, claim: &Arc<Claim>, busy: &Busy, until: Moment) -> Option<Result<Wake>> {
    core.until(until, core.engine.clone().wait(claim.clone(), busy.clone())).await
}

fn give_up(end: End, holder: Option<ClaimState>, failure: Option<Error>, claim: &Claim) -> Result<Outcome> {
    match (end, failure) {
        (End::Busy | End::TimedOut, _) => Ok(Outcome::NotHeld(holder.map(|holder| holder.note))),
        (End::Unanswered, _) => Err(super::no_answer().about(&claim.name)),
        (End::Failed, Some(error)) => Err(error.about(&claim.name)),
        (End::Failed | End::TooLate, _) => {
            let ttl = claim.ttl;
            let message = format!(
                "the engine answered too late for a ttl of {ttl:?}; raise ttl or look at the engine's load"
            );
            Err(Error::new(ErrorKind::Unreachable, message).about(&claim.name))
        }
    }
}
