//! A held claim and the duty to release it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{LeaseState, LocalLease};
use crate::clock::Moment;
use crate::core::Core;
use crate::core::background::ReleasePending;
use crate::core::queue::{ClaimRole, Joinable, ReadWindow, Strays};
use crate::core::terms::{HeldTerms, LeaseTerms, LockTerms};
use crate::engine::{Claim, Mode, Released, Renewal};
use crate::{Loss, Result, Token};

/// The share of one guard in a held claim. Dropping the last share passes the claim to the next local waiter,
/// or sends its release.
pub(crate) enum HeldClaim {
    /// The guard holds the claim without others.
    Exclusive(OwnedClaim),
    /// Guards of the same owner, or readers, hold the claim together.
    Shared(Arc<OwnedClaim>),
}

/// A claim that is held, with the duty to release it: see [`HeldClaim`].
///
/// Boxed, because the slot of every local waiter has room for one.
pub(crate) struct OwnedClaim(Option<Box<OwnedFields>>);

struct OwnedFields {
    core: Arc<Core>,
    lease: Arc<LeaseState>,
    engine_token: Option<u64>,
    /// How often the claim was passed on since it was granted, and when that was.
    pass: u8,
    since: Moment,
    /// When the guard that holds it got it.
    turn_since: Moment,
    pass_for: Duration,
    /// Until when it stays held, however soon its guard is released.
    keep_until: Option<Moment>,
    terms: LeaseTerms,
    strays: Strays,
}

/// A claim that no other task of this client takes, to be released.
type Unwanted = Option<(ReleasePending, Arc<Claim>)>;

/// The client's queue joins further tasks to a shared claim through this handle.
pub(in crate::core) struct SharedHandle {
    lease: Arc<LeaseState>,
    owned: Weak<OwnedClaim>,
}

impl Joinable for SharedHandle {
    type Joined = HeldClaim;

    fn is_certain_at(&self, now: Moment) -> bool {
        self.lease.is_certain_at(now)
    }

    fn join(&self) -> Option<HeldClaim> {
        self.owned.upgrade().map(HeldClaim::Shared)
    }
}

impl HeldClaim {
    /// Begins when the claim was found granted.
    pub(in crate::core) fn begin(
        (core, claim, strays): (Arc<Core>, Arc<Claim>, Strays),
        engine_token: Option<u64>,
        lease: LocalLease,
        terms: &LockTerms,
        since: Moment,
    ) -> Self {
        let lease = LeaseState::new(claim, &core, lease);
        core.keeper.add(&lease, &core.background, since);
        let keep_until = (!terms.at_least.is_zero()).then(|| since.after(terms.at_least));
        // The next task of this client is to be kept out as well.
        let pass_for = if keep_until.is_some() { Duration::ZERO } else { terms.pass_for };
        let owned = OwnedClaim(Some(Box::new(OwnedFields {
            core,
            lease,
            engine_token,
            pass: 0,
            since,
            turn_since: since,
            pass_for,
            keep_until,
            terms: terms.lease,
            strays,
        })));
        match (&terms.owner, terms.mode) {
            (_, Mode::Read) => owned.share_with_readers(terms, since),
            (None, _) => Self::Exclusive(owned),
            (Some(_), _) => owned.share_with_owner(),
        }
    }

    fn fields(&self) -> &OwnedFields {
        match self {
            Self::Exclusive(owned) => owned.fields(),
            Self::Shared(shared) => shared.fields(),
        }
    }

    pub(crate) fn lease(&self) -> &Arc<LeaseState> {
        &self.fields().lease
    }

    /// How often the claim was passed on since it was granted.
    pub(crate) fn pass(&self) -> u8 {
        self.fields().pass
    }

    pub(crate) fn token(&self) -> Option<Token> {
        self.fields().token()
    }

    /// Whether other guards hold the claim together with this one.
    pub(in crate::core) fn has_others(&self) -> bool {
        matches!(self, Self::Shared(shared) if Arc::strong_count(shared) > 1)
    }

    /// Releases the share of this guard. Also returns the reason why the claim was lost before, if it was.
    /// While other guards hold the claim, it counts as freed as far as this guard is concerned.
    pub(crate) async fn release(self) -> (Result<Released>, Option<Loss>) {
        match self {
            Self::Exclusive(owned) => owned.release().await,
            Self::Shared(shared) => {
                let loss = shared.fields().lease.loss();
                match Arc::into_inner(shared) {
                    Some(owned) => owned.release().await,
                    None => (Ok(Released::Freed), loss),
                }
            }
        }
    }
}

impl OwnedFields {
    fn token(&self) -> Option<Token> {
        self.engine_token.map(|token| Token::new(token, self.pass))
    }

    /// Whether another task of this client may have it next: not for ever, because other clients are assumed
    /// to wait.
    fn may_pass(&self, now: Moment) -> bool {
        self.pass < u8::MAX && now.since(self.since) < self.pass_for
    }
}

impl OwnedClaim {
    fn fields(&self) -> &OwnedFields {
        self.0.as_ref().expect("a claim is used until it is released")
    }

    /// All local waiters of the holder's owner hold with it: the holder may be waiting for them.
    fn share_with_owner(self) -> HeldClaim {
        let (core, lease) = (self.fields().core.clone(), self.fields().lease.clone());
        let shared = Arc::new(self);
        let handle = SharedHandle { lease: lease.clone(), owned: Arc::downgrade(&shared) };
        core.queues.share_with_owner(&lease.claim, handle);
        HeldClaim::Shared(shared)
    }

    /// The readers behind this one hold with it, up to the first task that asks for something else.
    fn share_with_readers(self, terms: &LockTerms, now: Moment) -> HeldClaim {
        let (core, lease) = (self.fields().core.clone(), self.fields().lease.clone());
        let shared = Arc::new(self);
        let handle = SharedHandle { lease: lease.clone(), owned: Arc::downgrade(&shared) };
        let reads = || ReadWindow { terms: terms.clone(), until: now.after(terms.pass_for) };
        let reads = terms.shares_reads().then(reads);
        core.queues.share_with_readers(&lease.claim, handle, reads);
        HeldClaim::Shared(shared)
    }

    /// The claim for the next task, with a greater token.
    fn passed(mut self, now: Moment) -> Self {
        let mut fields = self.0.take();
        if let Some(fields) = &mut fields {
            fields.pass += 1;
            fields.turn_since = now;
            fields.lease.begin_turn(fields.pass, now);
        }
        Self(fields)
    }

    /// Passes the claim to the next local waiter if it asks for the same. Returns the claim if no task takes
    /// it.
    fn pass(self, now: Moment) -> Option<Self> {
        let fields = self.fields();
        if !fields.may_pass(now) {
            return Some(self);
        }
        let core = fields.core.clone();
        let (lease, pass_for, has_token) = (fields.terms, fields.pass_for, fields.engine_token.is_some());
        let held = HeldTerms { claim: &fields.lease.claim, lease, pass_for, has_token };
        match core.queues.pass(&held) {
            Some(successor) => {
                let claim = fields.lease.claim.clone();
                successor.receive(&claim.name, HeldClaim::Exclusive(self.passed(now)));
                None
            }
            None => Some(self),
        }
    }

    /// Releases the lock, or passes it on, and waits for the answer. Also returns the reason why it was lost
    /// before, if it was.
    async fn release(mut self) -> (Result<Released>, Option<Loss>) {
        let (unwanted, loss, now) = self.end_turn();
        match unwanted {
            Some((release, claim)) => {
                let core = release.core().clone();
                match release.release(claim.clone(), now).await {
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

    /// Passes the claim on. Returns a claim that must be released instead, the reason of a loss, and the time
    /// of both. A copy of the process that took the claim (a fork, a restored image) sends nothing: the claim
    /// is still the original's.
    fn end_turn(&mut self) -> (Unwanted, Option<Loss>, Moment) {
        let Some(fields) = self.0.take() else { return (None, None, Moment::NEVER) };
        let (loss, now) = fields.lease.loss_now();
        if loss == Some(Loss::Copied) {
            if fields.core.is_a_copy() {
                std::mem::forget(fields);
            } else {
                // A restored image goes on living: its name opens again for claims of its own.
                drop(Self(Some(fields)).into_release());
            }
            return (None, loss, now);
        }
        fields.core.telemetry.held(&fields.lease.claim, now.since(fields.turn_since));
        let is_kept = loss.is_none() && fields.keep_until.is_some_and(|until| now < until);
        let owned = Self(Some(fields));
        if is_kept {
            owned.keep(now);
            return (None, None, now);
        }
        let unwanted = if loss.is_none() { owned.pass(now) } else { Some(owned) };
        (unwanted.and_then(Self::into_release), loss, now)
    }

    /// Renews the claim in the background until it may be released, and only then releases it.
    fn keep(self, now: Moment) {
        // In a turn of its own: its former guard does not learn of a later loss.
        let mut kept = self.passed(now);
        let Some((core, until)) =
            kept.0.as_mut().and_then(|fields| Some((fields.core.clone(), fields.keep_until.take()?)))
        else {
            return;
        };
        core.clone().background.spawn_kept(until, async move {
            let fields = kept.fields();
            let _ = core.until(until, fields.lease.lost(fields.pass)).await;
            if let Some((release, claim)) = kept.into_release() {
                release.release_in_background(claim);
            }
        });
    }

    fn into_release(mut self) -> Unwanted {
        let OwnedFields { core, lease, strays, .. } = *self.0.take()?;
        // Renewal ends before the release is sent, or a late one would look like a loss.
        core.keeper.remove(&lease);
        let role = ClaimRole::holding(lease.claim.mode);
        Some((ReleasePending::new(core, lease.claim.name.clone(), role, strays), lease.claim.clone()))
    }
}

impl Drop for OwnedClaim {
    fn drop(&mut self) {
        if let (Some((release, claim)), _, now) = self.end_turn() {
            release.release_on_drop(claim, now);
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
