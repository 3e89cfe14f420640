//! The verb `claim`: one statement for an uncontended lock, and a transaction on the queue otherwise.

use super::conflict::retry_on_passed_conflict;
use super::entry::{micros, owner_value};
use super::operations::ClaimOperation;
use super::row_engine::{RowEngine, name};
use super::row_store::RowStore;
use super::statement::Statement;
use super::sweep;
use super::value::SqlValue;
use crate::engine::{Claim, Grant, Lifetime, Mode, Valid, Verdict};
use crate::{Effect, Error, ErrorKind, Result};

impl<S: RowStore> RowEngine<S> {
    pub(super) async fn claim_lock(&self, claim: &Claim) -> Result<Verdict> {
        if claim.lifetime != Lifetime::Lease {
            let message = format!("{} supports only claims with a lease", self.store.promises().engine);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let verdict = self.claim_or_enqueue(claim).await;
        match &verdict {
            Ok(Verdict::Granted(_)) => {
                self.store.forget(claim.id);
                if self.sweeps.is_time() {
                    tokio::spawn(sweep::sweep_if_due(self.clone()));
                }
            }
            // No release may follow (C11). A claim that waits is expected again when it is repeated.
            Err(error) if error.effect() == Effect::None => self.store.forget(claim.id),
            _ => {}
        }
        verdict
    }

    async fn claim_or_enqueue(&self, claim: &Claim) -> Result<Verdict> {
        let is_try = claim.wait_lease.is_zero();
        // Before the entry is written: a notification between the two would be missed.
        let channel = if is_try { None } else { self.store.channel().await? };
        if !is_try && self.store.expect(claim.id) {
            let still_waiting = match &channel {
                // A claim with an owner may be able to take over by now.
                Some(_) if claim.owner.is_some() => None,
                Some(_) => self.heartbeat(claim).await?,
                None => self.poll(claim).await?,
            };
            if let Some(verdict) = still_waiting {
                return Ok(verdict);
            }
        } else if claim.mode == Mode::Exclusive
            && let Some(grant) = self.claim_uncontended(claim).await?
        {
            return Ok(Verdict::Granted(grant));
        }
        let operation = ClaimOperation { claim, channel: channel.as_deref() };
        retry_on_passed_conflict(|| self.in_transaction(&operation)).await?
    }

    /// Claims the lock in one statement. `None`: the lock has a holder or a waiter.
    async fn claim_uncontended(&self, claim: &Claim) -> Result<Option<Grant>> {
        let note = SqlValue::bytes(claim.note.as_str().as_bytes());
        let (ttl, owner) = (SqlValue::Int(micros(claim.ttl)), owner_value(claim.owner.as_ref()));
        let values = [name(claim), SqlValue::id(claim.id), ttl, note, owner];
        let answer = self.run(Statement::ClaimUncontended, values).await?;
        let Some(token) = answer.scalar() else { return Ok(None) };
        // A row means that the lock was granted, whatever the token is.
        let token = token.as_int().map_err(|error| error.with_effect(Effect::Unknown))?;
        Ok(Some(Grant { token: Some(token as u64), valid: Valid::For(claim.ttl) }))
    }
}
