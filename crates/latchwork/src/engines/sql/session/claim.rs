//! The verb `claim`: one statement on the common connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::inspect::state_of;
use super::leased_connection::LeasedConnection;
use super::session_claims::{BeginClaim, ClaimEntry, ClaimPhase};
use super::{Key, SessionConnection, SessionEngine, SessionStore, TryLock};
use crate::engine::{Busy, Claim, ClaimId, ClaimState, Lifetime, Mode, Verdict};
use crate::{Effect, Error, ErrorKind, Result};

/// Waiters blocked longer than this learn who holds the lock. The look-up costs the server more than the lock
/// does, and most waiters are granted sooner.
const HOLDER_LOOKUP_AFTER: Duration = Duration::from_millis(50);

/// The longest time for that look-up.
const HOLDER_LOOKUP_LIMIT: Duration = Duration::from_millis(250);

/// The next step of a claim.
enum PreparedClaim<C> {
    /// Send it on this connection.
    SendOn(Arc<LeasedConnection<C>>),
    Answer(Verdict),
}

impl<S: SessionStore> SessionEngine<S> {
    pub(in crate::engines) async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let (pool, claims) = (&self.0.pool, &self.0.pool.claims);
        self.check_supported(claim)?;
        let key = pool.key(&claim.name);
        let leased = match claims.begin_claim(claim, key, self.0.usable_common())? {
            BeginClaim::SendOn(leased) => leased,
            // Boxed, as is all code that a free lock does not need: this future is created for every claim.
            begin => match Box::pin(self.prepare(claim, key, begin)).await? {
                PreparedClaim::SendOn(leased) => leased,
                PreparedClaim::Answer(verdict) => return Ok(verdict),
            },
        };
        let fenced = pool.fences(claim).then_some(&claim.name);
        // Pinned in place: a future that is passed by value is copied at each step.
        let trying = pin!(leased.connection.try_lock(key, fenced, &claim.note));
        match leased.request(trying).await {
            Ok(TryLock::Held(token)) => {
                claims.update(claim.id, |entry| entry.phase = ClaimPhase::Held(token));
                pool.grant(&leased, token).await.map(Verdict::Granted)
            }
            Ok(TryLock::Busy) => {
                self.not_granted(claim);
                // The holder found earlier may have released the lock since. It is looked up again if the
                // claim keeps waiting.
                let mut busy = self.busy(None);
                claims.update(claim.id, |entry| busy = entry.busy.take().unwrap_or(busy.clone()));
                busy.again_in = HOLDER_LOOKUP_AFTER.min(busy.again_in);
                Ok(Verdict::Busy(busy))
            }
            Err(error) => {
                if error.effect() == Effect::None {
                    // No release may follow (C11).
                    claims.forget(claim.id);
                }
                Err(error)
            }
        }
    }

    fn check_supported(&self, claim: &Claim) -> Result<()> {
        if claim.lifetime != Lifetime::Lease || claim.mode != Mode::Exclusive {
            let engine = self.0.pool.store.engine();
            let message = format!("{engine} supports only exclusive locks with a lease");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// Does what is necessary before a claim is sent, or answers it without sending it.
    async fn prepare(
        &self,
        claim: &Claim,
        key: Key,
        begin: BeginClaim<S::Connection>,
    ) -> Result<PreparedClaim<S::Connection>> {
        let (pool, claims) = (&self.0.pool, &self.0.pool.claims);
        let busy = |busy| Ok(PreparedClaim::Answer(Verdict::Busy(busy)));
        match begin {
            BeginClaim::SendOn(leased) => return Ok(PreparedClaim::SendOn(leased)),
            BeginClaim::Held(leased, token) if !leased.is_unusable() => {
                return Ok(PreparedClaim::Answer(Verdict::Granted(pool.grant(&leased, token).await?)));
            }
            // The server may not have noticed the end of the connection yet.
            BeginClaim::Held(leased, _) => {
                claims.update(claim.id, |entry| entry.phase = ClaimPhase::Unconfirmed);
                self.0.terminate(&leased).await?;
            }
            BeginClaim::HeldByOther => {
                if claim.wait_lease.is_zero() {
                    claims.forget_idle(claim.id);
                }
                return busy(self.busy(None));
            }
            BeginClaim::Waiting(_) if self.end_stalled_wait(claim.id) => return busy(self.busy(None)),
            BeginClaim::Waiting(Some(known)) => return busy(known),
            BeginClaim::Waiting(None) => return busy(self.busy_with_holder(claim.id, key).await),
            BeginClaim::Send(None) => {}
            // The unanswered request may have been sent on the common connection. A lock that is taken twice
            // on one connection has to be released twice.
            BeginClaim::Send(Some(unanswered)) => {
                claims.update(claim.id, |entry| entry.leased = Some(unanswered.clone()));
                match unanswered.is_unusable() {
                    true => self.0.terminate(&unanswered).await?,
                    false => {
                        let unlocked = unanswered.request(unanswered.connection.unlock(key)).await;
                        unlocked.map_err(|error| error.with_effect(Effect::Unknown))?;
                    }
                }
            }
        }
        let leased = self.0.common().await.map_err(|error| {
            claims.forget(claim.id);
            error.with_effect(Effect::None)
        })?;
        if claims.set_connection(claim.id, key, &leased) {
            return Ok(PreparedClaim::SendOn(leased));
        }
        // Another claim of this client was sent meanwhile.
        self.not_granted(claim);
        busy(self.busy(None))
    }

    /// Ends a wait without a reply for two ttls, and its connection. Returns whether it did.
    fn end_stalled_wait(&self, id: ClaimId) -> bool {
        let claims = &self.0.pool.claims;
        match claims.get(id) {
            Some(ClaimEntry { phase: ClaimPhase::Waiting(wait), leased: Some(leased), .. })
                if leased.is_stalled() =>
            {
                leased.close();
                claims.update_wait(id, wait, |entry| (entry.phase, entry.leased) = (ClaimPhase::Idle, None));
                true
            }
            _ => false,
        }
    }

    /// The claim does not hold the lock. It is remembered if it waits.
    fn not_granted(&self, claim: &Claim) {
        let claims = &self.0.pool.claims;
        if claim.wait_lease.is_zero() {
            claims.forget(claim.id);
        } else {
            claims.update(claim.id, |entry| (entry.phase, entry.leased) = (ClaimPhase::Idle, None));
        }
    }

    /// Busy, with the holder of the lock for people to read. The holder may stay unknown, and a claim that
    /// may be granted the lock does not wait for the look-up.
    async fn busy_with_holder(&self, id: ClaimId, key: Key) -> Busy {
        let participants = match self.0.usable_common() {
            Some(leased) => {
                let lookup = leased.request(leased.connection.participants(key));
                self.0.pool.thread.in_time(HOLDER_LOOKUP_LIMIT, lookup).await.and_then(Result::ok)
            }
            None => None,
        };
        let holder = participants.and_then(|all| all.into_iter().find(|participant| participant.is_holder));
        let busy = self.busy(holder.map(|holder| state_of(&holder)));
        self.0.pool.claims.update(id, |entry| entry.busy = Some(busy.clone()));
        busy
    }

    fn busy(&self, holder: Option<ClaimState>) -> Busy {
        let mut busy = Busy::new(self.0.pool.store.terms().slice());
        busy.holder = holder;
        busy
    }
}
