//! Renews held claims: one keep-alive per lease, and a watch for each claim's key.

use std::collections::HashSet;
use std::sync::Arc;

use super::Etcd;
use super::claim_key::ClaimKey;
use super::connection::Connection;
use super::key_watch::WatchRecipient;
use super::keys::is_revoked;
use super::lease::EtcdLease;
use super::queue;
use super::wire::{
    LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, TXN, TxnRequest, TxnResponse,
};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Loss, Result};

/// The number of keys that are read in one transaction. The server allows 128 operations.
const BATCH: usize = 100;
/// The server lists the keys of a lease with every so many keep-alives.
const CHECK_EVERY: u32 = 2;

impl Etcd {
    pub(super) async fn renew_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let connection = match self.shared.connection().await {
            Ok(connection) => connection,
            Err(error) => return claims.iter().map(|_| Err(error.again())).collect(),
        };
        let claim_keys: Vec<_> = claims.iter().map(|claim| self.shared.find(claim.id)).collect();
        let renewed = match self.renew_leases(&connection, claim_keys.iter().flatten()).await {
            Ok(()) => self.watch_new_holders(&connection, claims, &claim_keys).await,
            Err(error) => Err(error),
        };
        if self.shared.has_unanswered_releases() {
            // In a task of its own: repeated releases of other claims must not delay the reply to the
            // renewal.
            let etcd = self.clone();
            tokio::spawn(async move { etcd.retry_releases().await });
        }
        match renewed {
            Ok(()) => claims.iter().map(|claim| Ok(self.renewal(claim))).collect(),
            Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
        }
    }

    /// Sends one keep-alive per lease, however many claims have keys under it.
    async fn renew_leases(
        &self,
        connection: &Connection,
        claim_keys: impl Iterator<Item = &ClaimKey>,
    ) -> Result<()> {
        let mut renewed = HashSet::new();
        for lease in claim_keys.map(|claim_key| &claim_key.lease).filter(|lease| !lease.has_ended()) {
            if !renewed.insert(lease.id) {
                continue;
            }
            let keep_alives = lease.keep_alive(connection).await?;
            if keep_alives.is_some_and(|keep_alives| keep_alives % CHECK_EVERY == 1) {
                self.check_keys(connection, lease).await?;
            }
        }
        Ok(())
    }

    /// Compares the held claims with the keys that the server lists for their lease. Otherwise the client
    /// would never notice an event that the server failed to send.
    async fn check_keys(&self, connection: &Connection, lease: &EtcdLease) -> Result<()> {
        let request = LeaseTimeToLiveRequest { id: lease.id, keys: true };
        let held = self.shared.held_under(lease.id);
        let response: LeaseTimeToLiveResponse =
            connection.call(self.options(), LEASE_TIME_TO_LIVE, request).await?;
        let existing: HashSet<_> = response.keys.into_iter().collect();
        for (claim, _) in held.into_iter().filter(|(_, key)| !existing.contains(key)) {
            self.shared.update(claim, |claim_key| {
                claim_key.loss = claim_key.loss.or(Some(claim_key.reported_loss()));
            });
            self.shared.loss_hints.tell(claim);
        }
        Ok(())
    }

    /// Watches the keys of claims that are renewed for the first time on this connection, and reads them
    /// once.
    async fn watch_new_holders(
        &self,
        connection: &Connection,
        claims: &[Arc<Claim>],
        claim_keys: &[Option<ClaimKey>],
    ) -> Result<()> {
        let mut unwatched = Vec::new();
        for (claim, claim_key) in claims.iter().zip(claim_keys) {
            let Some(claim_key) = claim_key else { continue };
            let is_watched = claim_key.holder_watch.as_ref().is_some_and(|watch| !watch.status().is_changed);
            if claim_key.lease.has_ended() || is_watched {
                continue;
            }
            let recipient = WatchRecipient::Keeper(claim.id, self.shared.loss_hints.clone());
            let watch = connection.watch_stream.watch(connection, claim_key.key.clone(), recipient);
            unwatched.push((claim, claim_key, Arc::new(watch)));
        }
        for batch in unwatched.chunks(BATCH) {
            for (_, _, watch) in batch {
                connection.retire_if_abandoned(watch.until_created()).await;
            }
            let success = batch.iter().map(|(_, claim_key, _)| queue::get(&claim_key.key)).collect();
            let request = TxnRequest { success, ..TxnRequest::default() };
            let response: TxnResponse = connection.call(self.options(), TXN, request).await?;
            for ((claim, claim_key, watch), own) in batch.iter().zip(response.ranges()) {
                let loss = match own.kvs.first() {
                    None => Some(self.find_loss(connection, claim_key).await),
                    Some(kv) if claim_key.revision.is_some_and(|revision| revision != kv.create_revision) => {
                        Some(Loss::Removed)
                    }
                    Some(kv) => is_revoked(kv).then_some(Loss::Revoked),
                };
                self.shared.update(claim.id, |claim_key| {
                    claim_key.holder_watch = Some(watch.clone());
                    claim_key.loss = claim_key.loss.or(loss);
                });
            }
        }
        Ok(())
    }

    /// Why a claim's key is gone. Without a watch, the client searches the server's history of the key.
    pub(super) async fn find_loss(&self, connection: &Connection, claim_key: &ClaimKey) -> Loss {
        let (None, Some(revision)) = (&claim_key.holder_watch, claim_key.revision) else {
            return claim_key.reported_loss();
        };
        let (key, recipient) = (claim_key.key.clone(), WatchRecipient::Waiter(Arc::default()));
        let history = connection.watch_stream.watch_since(connection, key, recipient, revision + 1);
        connection.retire_if_abandoned(history.until_changed()).await;
        if history.status().is_revoked { Loss::Revoked } else { Loss::Removed }
    }

    /// The result for one claim, from what is known now.
    fn renewal(&self, claim: &Claim) -> Renewal {
        match self.shared.find(claim.id) {
            None => Renewal::Lost(Loss::Removed),
            Some(claim_key) if claim_key.lease.has_ended() => Renewal::Lost(Loss::SessionEnded),
            Some(ClaimKey { loss: Some(loss), .. }) => Renewal::Lost(loss),
            Some(claim_key) if claim_key.revision.is_none() => Renewal::Lost(Loss::Removed),
            Some(claim_key) => Renewal::Kept(Valid::Until(claim_key.lease.deadline())),
        }
    }
}
