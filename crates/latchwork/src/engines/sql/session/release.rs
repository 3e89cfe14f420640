//! The verb `release`.

use std::pin::pin;

use super::session_claims::ClaimPhase;
use super::{SessionConnection, SessionEngine, SessionStore};
use crate::Result;
use crate::engine::{Claim, Released};

impl<S: SessionStore> SessionEngine<S> {
    pub(in crate::engines) async fn release(&self, claim: &Claim) -> Result<Released> {
        let (pool, claims) = (&self.0.pool, &self.0.pool.claims);
        let mut entry_before = None;
        claims.update(claim.id, |entry| {
            entry_before = Some((entry.phase.clone(), entry.leased.clone(), entry.key));
            // From here on a wait in the server reports no grant to the claim.
            entry.phase = ClaimPhase::Unconfirmed;
        });
        let Some((phase, leased, key)) = entry_before else { return Ok(Released::NotHeld) };
        let released = match (phase, leased) {
            (ClaimPhase::Idle | ClaimPhase::Waiting(_) | ClaimPhase::WaitEnded(_), None) => Released::Freed,
            (_, None) => Released::NotHeld,
            // The server may grant the lock at any moment, but not to a connection that has ended.
            (ClaimPhase::Waiting(_), Some(leased)) => {
                Box::pin(self.0.terminate(&leased)).await?;
                Released::Freed
            }
            (_, Some(leased)) if leased.is_unusable() => {
                Box::pin(self.0.terminate(&leased)).await?;
                Released::NotHeld
            }
            (_, Some(leased)) => {
                let unlocking = pin!(leased.connection.unlock(key));
                let was_held = leased.request(unlocking).await?;
                claims.forget(claim.id);
                // A connection that held the lock holds nothing now and can be used again. Otherwise it is
                // dropped.
                if was_held && !self.0.is_common(&leased) {
                    pool.put_back(leased.clone());
                }
                return Ok(if was_held { Released::Freed } else { Released::NotHeld });
            }
        };
        claims.forget(claim.id);
        Ok(released)
    }
}
