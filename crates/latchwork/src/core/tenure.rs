//! A held claim and the duty to give it back.

use std::sync::Arc;
use std::time::Duration;

use super::active::Part;
use super::finish::Finish;
use super::grip::Grip;
use super::hold::Hold;
use super::lease::{Lease, LeaseTerms};
use super::ticket::{Strays, Ticket};
use super::{Core, Terms, local};
use crate::clock::Moment;
use crate::engine::{Claim, Mode, Released, Renewal};
use crate::{Loss, Result, Token};

/// A claim that is held. Dropping it passes the claim to the next local waiter, or sends its release.
///
/// Boxed, because every local waiter's slot has room for one.
pub(crate) struct Tenure(Option<Box<Inner>>);

/// A claim that nobody in this client takes, to be given back.
type Unwanted = Option<(Finish, Arc<Claim>)>;

struct Inner {
    core: Arc<Core>,
    hold: Arc<Hold>,
    engine_token: Option<u64>,
    /// How often the claim was passed on since it was granted, and when that was.
    pass: u8,
    since: Moment,
    /// When the guard that holds it got it.
    turn_since: Moment,
    pass_for: Duration,
    /// Until when it stays held, however soon its guard lets go.
    keep_until: Option<Moment>,
    lease_terms: LeaseTerms,
    strays: Strays,
}

impl Tenure {
    /// Begins when the claim was found granted. `None` if the claim was released meanwhile because its task
    /// was not polled.
    pub(crate) fn begin(
        ticket: Ticket,
        engine_token: Option<u64>,
        lease: Lease,
        terms: &Terms,
        since: Moment,
    ) -> Option<Grip> {
        let (core, claim, strays) = ticket.into_tenure()?;
        let hold = Hold::new(claim, &core, lease);
        core.keeper.add(&hold, &core.background, since);
        let lease_terms = terms.lease;
        let keep_until = (!terms.at_least.is_zero()).then(|| since.after(terms.at_least));
        // The next task of this client is to be kept out as well.
        let pass_for = if keep_until.is_some() { Duration::ZERO } else { terms.pass_for };
        let inner = Inner {
            core,
            hold,
            engine_token,
            pass: 0,
            since,
            turn_since: since,
            pass_for,
            keep_until,
            lease_terms,
            strays,
        };
        let tenure = Self(Some(Box::new(inner)));
        Some(match (&terms.owner, terms.mode) {
            (_, Mode::Read) => local::share_read(tenure, terms, since),
            (None, _) => Grip::Alone(tenure),
            (Some(_), _) => local::share(tenure),
        })
    }

    fn inner(&self) -> &Inner {
        self.0.as_ref().expect("a tenure is used until it is given back")
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.inner().core
    }

    pub(crate) fn claim(&self) -> &Arc<Claim> {
        &self.inner().hold.claim
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.inner().hold
    }

    pub(crate) fn lease_terms(&self) -> LeaseTerms {
        self.inner().lease_terms
    }

    /// How often the claim was passed on since it was granted.
    pub(crate) fn pass(&self) -> u8 {
        self.inner().pass
    }

    pub(crate) fn pass_for(&self) -> Duration {
        self.inner().pass_for
    }

    pub(crate) fn token(&self) -> Option<Token> {
        let inner = self.inner();
        inner.engine_token.map(|token| Token::new(token, inner.pass))
    }

    /// Whether another task of this client may have it next: not for ever, because other clients are assumed to wait.
    pub(crate) fn may_pass(&self, now: Moment) -> bool {
        let inner = self.inner();
        inner.pass < u8::MAX && now.since(inner.since) < inner.pass_for
    }

    /// The same claim for the next task, with a greater token.
    pub(crate) fn passed(mut self, now: Moment) -> Self {
        let mut inner = self.0.take();
        if let Some(inner) = &mut inner {
            inner.pass += 1;
            inner.turn_since = now;
            inner.hold.begin_turn(inner.pass, now);
        }
        Self(inner)
    }

    /// Gives the lock back, or passes it on, and waits for the answer; and why it was lost before, if it was.
    pub(crate) async fn release(mut self) -> (Result<Released>, Option<Loss>) {
        let (unwanted, loss, now) = self.end_turn();
        match unwanted {
            Some((finish, claim)) => {
                let core = finish.core().clone();
                match finish.release(claim.clone(), now).await {
                    Ok(Released::Revoked) => (Ok(Released::NotHeld), loss.or(Some(Loss::Revoked))),
                    Ok(Released::NotHeld) if loss.is_none() => {
                        (Ok(Released::NotHeld), Some(Box::pin(why_not_held(&core, claim)).await))
                    }
                    answer => (answer, loss),
                }
            }
            None => (Ok(Released::Freed), loss),
        }
    }

    /// Passes the claim on; what nobody takes is to be given back. A copy of the process that took it (a fork, a restored
    /// image) sends nothing: the claim is still the original's. And when that was.
    fn end_turn(&mut self) -> (Unwanted, Option<Loss>, Moment) {
        let Some(inner) = self.0.take() else { return (None, None, Moment::NEVER) };
        let (loss, now) = inner.hold.loss_now();
        if loss == Some(Loss::Copied) {
            if inner.core.is_a_copy() {
                std::mem::forget(inner);
            } else {
                // A restored image goes on living: its name opens again for claims of its own.
                drop(Self(Some(inner)).give_back());
            }
            return (None, loss, now);
        }
        inner.core.telemetry.held(&inner.hold.claim, now.since(inner.turn_since));
        let is_kept = loss.is_none() && inner.keep_until.is_some_and(|until| now < until);
        let tenure = Self(Some(inner));
        if is_kept {
            tenure.keep(now);
            return (None, None, now);
        }
        let unwanted = if loss.is_none() { local::pass(tenure, now) } else { Some(tenure) };
        (unwanted.and_then(Self::give_back), loss, now)
    }

    /// Renews it in the background until its time has come, and only then gives it back.
    fn keep(self, now: Moment) {
        // In a turn of its own: what is lost from here on is none of its guard's business.
        let mut kept = self.passed(now);
        let Some((core, until)) =
            kept.0.as_mut().and_then(|inner| Some((inner.core.clone(), inner.keep_until.take()?)))
        else {
            return;
        };
        core.clone().background.spawn_kept(until, async move {
            let _ = core.until(until, kept.hold().lost(kept.pass())).await;
            if let Some((finish, claim)) = kept.give_back() {
                finish.release_in_background(claim);
            }
        });
    }

    fn give_back(mut self) -> Unwanted {
        let Inner { core, hold, strays, .. } = *self.0.take()?;
        // Renewal ends before the release is sent, or a late one would look like a loss.
        core.keeper.remove(&hold);
        let part = Part::holding(hold.claim.mode);
        Some((Finish::new(core, hold.claim.name.clone(), part, strays), hold.claim.clone()))
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if let (Some((finish, claim)), _, now) = self.end_turn() {
            finish.release_on_drop(claim, now);
        }
    }
}

/// The reason for a loss that its release was the first to find. A renewal revives nothing (C8), and its
/// answer tells a lock that was revoked from one that is gone.
async fn why_not_held(core: &Arc<Core>, claim: Arc<Claim>) -> Loss {
    if !core.engine.guarantees().tells_revocations {
        return Loss::Removed;
    }
    let engine = core.engine.clone();
    let renewal = Box::pin(async move { Ok(engine.renew(vec![claim]).await) });
    match core.answer(renewal, core.clock.now()).await.map(|mut renewals| renewals.pop()) {
        Ok(Some(Ok(Renewal::Lost(loss)))) => loss,
        _ => Loss::Removed,
    }
}
