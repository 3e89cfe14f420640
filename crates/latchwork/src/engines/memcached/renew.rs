//! Renewal: all claims of one server in one round trip. Values that another connection changed are read and
//! stored again.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::connection::Connection;
use super::session::Session;
use super::value::{self, Owner};
use super::wire::{Reply, Requests, expiry};
use super::{Memcached, Shared, errors};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Loss, Result};

/// The value was changed by another connection, is read, is stored: that is three. The core asks again about
/// claims that need more.
const ROUNDS: usize = 3;

/// The part of the shortest ttl that one of several servers may take. The core gives up all of them after a
/// sixth.
const PART_OF_TTL: u32 = 8;

/// The next step of one claim.
enum RenewalStep {
    /// Store the value again, if it still has this CAS id.
    Swap(u64),
    /// Read it: its CAS id in this life of the server is not known.
    Read,
    Settled(Result<Renewal>),
}

impl Memcached {
    /// Renews the claims of several servers at once. A server that does not answer must not cost the others
    /// their locks: the core asks again about its claims, within their leases.
    pub(super) async fn renew_on_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let limit = claims.iter().map(|claim| claim.ttl / PART_OF_TTL).min().unwrap_or_default();
        let mut of_each: Vec<_> = self.shared.sessions.iter().map(|_| Vec::new()).collect();
        for (index, claim) in claims.iter().enumerate() {
            of_each[self.shared.server_of(&self.shared.key(&claim.name))].push((index, claim.clone()));
        }
        let mut renewing = JoinSet::new();
        for (session, of_it) in self.shared.sessions.iter().zip(of_each) {
            if of_it.is_empty() {
                continue;
            }
            let (engine, session) = (self.clone(), session.clone());
            renewing.spawn(async move {
                let (indexes, claims): (Vec<_>, Vec<_>) = of_it.into_iter().unzip();
                let renewed = tokio::time::timeout(limit, engine.renew_on(&session, &claims)).await;
                let timed_out = |_| claims.iter().map(|_| Err(session.timed_out(limit))).collect();
                indexes.into_iter().zip(renewed.unwrap_or_else(timed_out)).collect::<Vec<_>>()
            });
        }
        let mut results: Vec<_> = claims.iter().map(|_| Err(errors::interrupted())).collect();
        while let Some(renewed) = renewing.join_next().await {
            renewed.unwrap_or_default().into_iter().for_each(|(index, result)| results[index] = result);
        }
        results
    }

    /// Renews the claims of one server.
    pub(super) async fn renew_on(&self, session: &Session, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let connection = match session.connection().await {
            Ok(connection) => connection,
            Err(error) => return claims.iter().map(|_| Err(error.again())).collect(),
        };
        let shared = &*self.shared;
        let step = |claim: &Arc<Claim>| {
            shared.cas(claim.id, &connection).map_or(RenewalStep::Read, RenewalStep::Swap)
        };
        let mut steps: Vec<_> = claims.iter().map(step).collect();
        for _ in 0..ROUNDS {
            if !steps.iter().any(RenewalStep::is_open) {
                break;
            }
            take_round(shared, &connection, claims, &mut steps).await;
        }
        steps.into_iter().map(RenewalStep::end).collect()
    }
}

async fn take_round(
    shared: &Shared,
    connection: &Connection,
    claims: &[Arc<Claim>],
    steps: &mut [RenewalStep],
) {
    let mut requests = Requests::default();
    for (claim, step) in claims.iter().zip(&*steps) {
        let key = shared.key(&claim.name);
        match step {
            // With its CAS id: a value that another client stored since must be neither extended nor
            // replaced.
            RenewalStep::Swap(cas) => requests.swap(&key, &value::of(claim), *cas, expiry(claim.ttl)),
            RenewalStep::Read => requests.read(&key),
            RenewalStep::Settled(_) => {}
        }
    }
    let open = claims.iter().zip(steps).filter(|(_, step)| step.is_open());
    match connection.ask_all(requests).await {
        Ok(replies) => {
            open.zip(replies)
                .for_each(|((claim, step), reply)| *step = step.after(shared, connection, claim, reply));
        }
        Err(error) => open.for_each(|(_, step)| *step = RenewalStep::Settled(Err(error.again()))),
    }
}

impl RenewalStep {
    fn is_open(&self) -> bool {
        !matches!(self, Self::Settled(_))
    }

    fn after(&self, shared: &Shared, connection: &Connection, claim: &Claim, reply: Reply) -> Self {
        let settled = match (self, reply) {
            (Self::Swap(_), Reply::Done(cas)) => {
                shared.learned_cas(claim.id, connection, cas);
                Ok(Renewal::Kept(Valid::For(claim.ttl)))
            }
            // Changed by another connection of this client, or by another client. A server that has no room
            // to store the value deletes the one that is there.
            (Self::Swap(_), Reply::Changed | Reply::Refused(_)) => return Self::Read,
            (_, Reply::Missing) => Ok(Renewal::Lost(Loss::Removed)),
            (Self::Read, Reply::Item(item)) => match value::owner(&item.value, claim.id) {
                Owner::Claim => return Self::Swap(item.cas),
                Owner::RevokedClaim => Ok(Renewal::Lost(Loss::Revoked)),
                Owner::Another => Ok(Renewal::Lost(Loss::Removed)),
            },
            (_, reply) => Err(connection.unexpected_reply(&reply)),
        };
        Self::Settled(settled)
    }

    fn end(self) -> Result<Renewal> {
        match self {
            Self::Settled(settled) => settled,
            _ => Err(errors::changed_meanwhile()),
        }
    }
}
