//! Keeping what is held.

use std::collections::HashSet;
use std::sync::Arc;

use super::Etcd;
use super::connection::Connection;
use super::keys::is_revoked;
use super::lease::Lease;
use super::queue;
use super::session::Place;
use super::watches::Bell;
use super::wire::{
    LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, TXN, TxnRequest, TxnResponse,
};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Loss, Result};

/// A transaction may have 128 operations.
const READ_TOGETHER: usize = 100;
/// Every how many renewals of a lease the server is asked which keys stand under it.
const CHECK_EVERY: u32 = 2;

impl Etcd {
    pub(super) async fn renew_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let connection = match self.session.connection().await {
            Ok(connection) => connection,
            Err(error) => return claims.iter().map(|_| Err(error.again())).collect(),
        };
        let places: Vec<_> = claims.iter().map(|claim| self.session.known(claim.id)).collect();
        let kept = self.keep_leases(&connection, places.iter().flatten()).await;
        let looked = match kept {
            Ok(()) => self.look_after(&connection, claims, &places).await,
            Err(error) => Err(error),
        };
        if self.session.owes() {
            // In a task of its own: deletes left over from other claims must not delay the reply to the
            // renewal.
            let etcd = self.clone();
            tokio::spawn(async move { etcd.pay().await });
        }
        match looked {
            Ok(()) => claims.iter().map(|claim| Ok(self.standing(claim))).collect(),
            Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
        }
    }

    /// One request per lease, however many claims stand under it.
    async fn keep_leases(&self, connection: &Connection, places: impl Iterator<Item = &Place>) -> Result<()> {
        let mut done = HashSet::new();
        for place in places.filter(|place| !place.lease.is_over()) {
            if !done.insert(place.lease.id) {
                continue;
            }
            let renewals = place.lease.keep(connection).await?;
            if renewals.is_some_and(|renewals| renewals % CHECK_EVERY == 1) {
                self.check(connection, &place.lease).await?;
            }
        }
        Ok(())
    }

    /// Asks which keys stand under a lease. An event that the server forgot to send would otherwise never be missed.
    async fn check(&self, connection: &Connection, lease: &Lease) -> Result<()> {
        let request = LeaseTimeToLiveRequest { id: lease.id, keys: true };
        let held = self.session.held_under(lease.id);
        let there: LeaseTimeToLiveResponse =
            connection.call(self.options(), LEASE_TIME_TO_LIVE, request).await?;
        let there: HashSet<_> = there.keys.into_iter().collect();
        for (claim, _) in held.into_iter().filter(|(_, key)| !there.contains(key)) {
            self.session.note(claim, |place| place.loss = place.loss.or(Some(why_gone(place))));
            self.session.loss_hints.tell(claim);
        }
        Ok(())
    }

    /// Watches over the keys of claims that are renewed for the first time on this connection, and reads them once.
    async fn look_after(
        &self,
        connection: &Connection,
        claims: &[Arc<Claim>],
        places: &[Option<Place>],
    ) -> Result<()> {
        let mut doubtful = Vec::new();
        for (claim, place) in claims.iter().zip(places) {
            let Some(place) = place else { continue };
            let is_watched = place.held.as_ref().is_some_and(|held| !held.seen().is_changed);
            if place.lease.is_over() || is_watched {
                continue;
            }
            let bell = Bell::Holder(claim.id, self.session.loss_hints.clone());
            let watch = Arc::new(connection.watches.watch(connection, place.key.clone(), bell));
            doubtful.push((claim, place, watch));
        }
        for doubtful in doubtful.chunks(READ_TOGETHER) {
            for (_, _, watch) in doubtful {
                connection.heard(watch.until_created()).await;
            }
            let success = doubtful.iter().map(|(_, place, _)| queue::own(&place.key)).collect();
            let request = TxnRequest { success, ..TxnRequest::default() };
            let answer: TxnResponse = connection.call(self.options(), TXN, request).await?;
            for ((claim, place, watch), own) in doubtful.iter().zip(answer.ranges()) {
                let loss = match own.kvs.first() {
                    None => Some(self.why_gone(connection, place).await),
                    Some(kv) if place.revision.is_some_and(|revision| revision != kv.create_revision) => {
                        Some(Loss::Removed)
                    }
                    Some(kv) => is_revoked(kv).then_some(Loss::Revoked),
                };
                self.session.note(claim.id, |place| {
                    place.held = Some(watch.clone());
                    place.loss = place.loss.or(loss);
                });
            }
        }
        Ok(())
    }

    /// Why a claim's key is gone. A key that nobody watched when it went is looked for in the server's history.
    pub(super) async fn why_gone(&self, connection: &Connection, place: &Place) -> Loss {
        let (None, Some(revision)) = (&place.held, place.revision) else { return why_gone(place) };
        let bell = Bell::Waiter(Arc::default());
        let history = connection.watches.watch_since(connection, place.key.clone(), bell, revision + 1);
        connection.heard(history.until_changed()).await;
        if history.seen().is_revoked { Loss::Revoked } else { Loss::Removed }
    }

    /// What is known of a claim now.
    fn standing(&self, claim: &Claim) -> Renewal {
        match self.session.known(claim.id) {
            None => Renewal::Lost(Loss::Removed),
            Some(place) if place.lease.is_over() => Renewal::Lost(Loss::SessionEnded),
            Some(Place { loss: Some(loss), .. }) => Renewal::Lost(loss),
            Some(place) if place.revision.is_none() => Renewal::Lost(Loss::Removed),
            Some(place) => Renewal::Kept(Valid::Until(place.lease.deadline())),
        }
    }
}

/// Why a claim's key is gone, as far as the server told: an operator writes it again before it is deleted.
fn why_gone(place: &Place) -> Loss {
    match &place.held {
        Some(watch) if watch.seen().is_revoked => Loss::Revoked,
        _ => Loss::Removed,
    }
}
