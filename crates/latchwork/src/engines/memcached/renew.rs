//! Renewal: all claims of one server in one round trip, and a second look at those that another connection changed.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::connection::Connection;
use super::server::Server;
use super::value::{self, Whose};
use super::wire::{Reply, Requests, expiry};
use super::{Memcached, Shared, interrupted};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Effect, Error, ErrorKind, Loss, Result};

/// Changed by another connection, looked at, stored: whoever is not through then is asked about again by the core.
const ROUNDS: usize = 3;

/// Which part of the shortest ttl a server may take where there are others. The core gives all of them up after a sixth.
const PATIENCE: u32 = 8;

/// What one claim needs next.
enum Step {
    /// To be stored anew, if it still has this CAS id.
    Swap(u64),
    /// To be looked at: its CAS id is not known in this life of the server.
    Look,
    Settled(Result<Renewal>),
}

impl Memcached {
    /// The claims of several servers, all at once. One that does not answer must not cost the others their locks: its
    /// claims are asked for again by the core, within their leases.
    pub(super) async fn renew_on_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let patience = claims.iter().map(|claim| claim.ttl / PATIENCE).min().unwrap_or_default();
        let mut of_each: Vec<_> = self.shared.servers.iter().map(|_| Vec::new()).collect();
        for (place, claim) in claims.iter().enumerate() {
            of_each[self.shared.at(&self.shared.key(&claim.name))].push((place, claim.clone()));
        }
        let mut renewing = JoinSet::new();
        for (server, of_it) in self.shared.servers.iter().zip(of_each).filter(|(_, of_it)| !of_it.is_empty())
        {
            let (engine, server) = (self.clone(), server.clone());
            renewing.spawn(async move {
                let (places, claims): (Vec<_>, Vec<_>) = of_it.into_iter().unzip();
                let renewed = tokio::time::timeout(patience, engine.renew_on(&server, &claims)).await;
                let late = |_| claims.iter().map(|_| Err(server.late(patience))).collect();
                places.into_iter().zip(renewed.unwrap_or_else(late)).collect::<Vec<_>>()
            });
        }
        let mut answers: Vec<_> = claims.iter().map(|_| Err(interrupted())).collect();
        while let Some(renewed) = renewing.join_next().await {
            renewed.unwrap_or_default().into_iter().for_each(|(place, answer)| answers[place] = answer);
        }
        answers
    }

    /// The claims of one server.
    pub(super) async fn renew_on(&self, server: &Server, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let connection = match server.connection().await {
            Ok(connection) => connection,
            Err(error) => return claims.iter().map(|_| Err(error.again())).collect(),
        };
        let shared = &*self.shared;
        let step = |claim: &Arc<Claim>| shared.cas(claim.id, &connection).map_or(Step::Look, Step::Swap);
        let mut steps: Vec<_> = claims.iter().map(step).collect();
        for _ in 0..ROUNDS {
            if !steps.iter().any(Step::is_open) {
                break;
            }
            take_round(shared, &connection, claims, &mut steps).await;
        }
        steps.into_iter().map(Step::end).collect()
    }
}

async fn take_round(shared: &Shared, connection: &Connection, claims: &[Arc<Claim>], steps: &mut [Step]) {
    let mut requests = Requests::default();
    for (claim, step) in claims.iter().zip(&*steps) {
        let key = shared.key(&claim.name);
        match step {
            // With its CAS id: what another stored there since must not be extended, nor replaced.
            Step::Swap(cas) => requests.swap(&key, &value::of(claim), *cas, expiry(claim.ttl)),
            Step::Look => requests.look(&key),
            Step::Settled(_) => {}
        }
    }
    let open = claims.iter().zip(steps).filter(|(_, step)| step.is_open());
    match connection.ask_all(requests).await {
        Ok(replies) => {
            open.zip(replies)
                .for_each(|((claim, step), reply)| *step = step.after(shared, connection, claim, reply));
        }
        Err(error) => open.for_each(|(_, step)| *step = Step::Settled(Err(error.again()))),
    }
}

impl Step {
    fn is_open(&self) -> bool {
        !matches!(self, Self::Settled(_))
    }

    fn after(&self, shared: &Shared, connection: &Connection, claim: &Claim, reply: Reply) -> Self {
        let settled = match (self, reply) {
            (Self::Swap(_), Reply::Done(cas)) => {
                shared.learned(claim.id, connection, cas);
                Ok(Renewal::Kept(Valid::For(claim.ttl)))
            }
            // Changed by another connection of ours, or by somebody else. And a server that has no room to store what is
            // asked of it deletes what is there.
            (Self::Swap(_), Reply::Changed | Reply::Refused(_)) => return Self::Look,
            (_, Reply::Missing) => Ok(Renewal::Lost(Loss::Removed)),
            (Self::Look, Reply::Item(item)) => match value::whose(&item.value, claim.id) {
                Whose::Mine => return Self::Swap(item.cas),
                Whose::MineRevoked => Ok(Renewal::Lost(Loss::Revoked)),
                Whose::Another => Ok(Renewal::Lost(Loss::Removed)),
            },
            (_, reply) => Err(connection.protocol_error(&reply)),
        };
        Self::Settled(settled)
    }

    fn end(self) -> Result<Renewal> {
        match self {
            Self::Settled(settled) => settled,
            _ => Err(changes()),
        }
    }
}

/// Somebody changes what is stored as fast as it is read.
pub(super) fn changes() -> Error {
    let message = "memcached: another client changed the lock meanwhile";
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}
