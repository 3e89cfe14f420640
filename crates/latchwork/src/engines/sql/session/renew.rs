//! The verb `renew`: one heartbeat for each connection.

use std::sync::Arc;

use super::leased_connection::LeasedConnection;
use super::session_claims::ClaimPhase;
use super::{SessionEngine, SessionStore};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Effect, Loss, Result};

impl<S: SessionStore> SessionEngine<S> {
    pub(in crate::engines) async fn renew(&self, renewed: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let (pool, claims) = (&self.0.pool, &self.0.pool.claims);
        let connections: Vec<_> = renewed
            .iter()
            .map(|claim| {
                let entry = claims.get(claim.id)?;
                entry.leased.filter(|_| matches!(entry.phase, ClaimPhase::Held(_)))
            })
            .collect();
        // All heartbeats at the same time.
        let mut heartbeats: Vec<(Arc<LeasedConnection<S::Connection>>, _)> = Vec::new();
        for leased in connections.iter().flatten() {
            if !heartbeats.iter().any(|(other, _)| Arc::ptr_eq(other, leased)) {
                let (connection, max_age) = (leased.clone(), pool.store.terms().ttl / 6);
                let heartbeat = pool.thread.spawn(async move { connection.heartbeat(max_age).await });
                heartbeats.push((leased.clone(), heartbeat));
            }
        }
        let mut alive = Vec::new();
        for (leased, heartbeat) in heartbeats {
            if heartbeat.await.unwrap_or(false) {
                alive.push(leased);
            }
        }
        let renewal = |leased: Option<Arc<LeasedConnection<S::Connection>>>| {
            // An unknown claim was released.
            let Some(leased) = leased else { return Ok(Renewal::Lost(Loss::Removed)) };
            match alive.iter().any(|other| Arc::ptr_eq(other, &leased)) {
                _ if leased.is_unusable() => Ok(Renewal::Lost(Loss::SessionEnded)),
                true => Ok(Renewal::Kept(Valid::Until(leased.liveness.valid_until()))),
                false => Err(pool.connection_ended().with_effect(Effect::Unknown)),
            }
        };
        connections.into_iter().map(renewal).collect()
    }
}
