//! The state that the handles of one client share: connections, leases, and the keys of claims.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::claim_key::ClaimKey;
use super::connection::Connection;
use super::errors;
use super::key_pool::KeyPool;
use super::keys;
use super::lease_pool::LeasePool;
use super::options::Options;
use crate::engine::{Claim, ClaimId};
use crate::engines::lost_hints::LossHints;
use crate::net::deadline;
use crate::net::per_runtime::PerRuntime;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Result};

/// One client of one cluster.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) loss_hints: Arc<LossHints>,
    connections: PerRuntime<Connection>,
    /// The index of the member that the next connection is tried with first.
    next_endpoint: AtomicUsize,
    version: Mutex<String>,
    leases: LeasePool,
    claim_keys: Mutex<HashMap<ClaimId, ClaimKey>>,
    key_pool: KeyPool,
    /// Claims whose release was not answered. Their lease is kept alive for other claims, so their keys would
    /// not expire by themselves.
    unanswered_releases: Mutex<HashSet<ClaimId>>,
    /// Held by the task that repeats these releases.
    pub(super) release_retry: tokio::sync::Mutex<()>,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            loss_hints: Arc::default(),
            connections: PerRuntime::default(),
            next_endpoint: AtomicUsize::new(0),
            version: Mutex::default(),
            leases: LeasePool::default(),
            claim_keys: Mutex::default(),
            key_pool: KeyPool::default(),
            unanswered_releases: Mutex::default(),
            release_retry: tokio::sync::Mutex::default(),
        }
    }

    /// The connection of this runtime. Opens one if there is none that works.
    ///
    /// # Errors
    /// If no member can be reached and used. Nothing was sent then.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connections.get(|| self.open_connection()).await
    }

    /// Tries one member after the other, and returns the error of the last one. A user that one member
    /// refuses is refused by all of them.
    async fn open_connection(&self) -> Result<Connection> {
        let (endpoints, first) = (&self.options.endpoints, self.next_endpoint.load(Ordering::Relaxed));
        let timeouts = match endpoints.len() {
            1 => &[deadline::ETCD_CONNECT][..],
            _ => &[deadline::ETCD_CONNECT_WITH_OTHERS, deadline::ETCD_CONNECT],
        };
        let attempts =
            timeouts.iter().flat_map(|timeout| (0..endpoints.len()).map(move |offset| (*timeout, offset)));
        let mut last_error = None;
        for (timeout, offset) in attempts {
            let index = (first + offset) % endpoints.len();
            // Stored before the attempt: if this call is dropped while the member does not reply, the next
            // connection begins with another member.
            self.next_endpoint.store(index + 1, Ordering::Relaxed);
            match Connection::open(&self.options, &endpoints[index], timeout).await {
                Ok(connection) => {
                    lock_ignoring_poison(&self.version).clone_from(&connection.version);
                    return Ok(connection);
                }
                Err(error) if error.kind() == ErrorKind::Denied => return Err(error),
                // However the handshake failed, no request of the caller was sent.
                Err(error) => last_error = Some(error.with_effect(Effect::None)),
            }
        }
        let last_error = last_error.expect("a cluster has members");
        Err(match endpoints.len() {
            1 => last_error,
            _ => {
                let message = format!("no member can be used; the last error: {last_error}");
                let error = errors::unreachable(&self.options.shown_as(), message);
                if last_error.is_about_tls() { error.with_tls_failure() } else { error }
            }
        })
    }

    /// The version of the member that was connected to last.
    pub(super) fn version(&self) -> String {
        lock_ignoring_poison(&self.version).clone()
    }

    /// The key of a claim. The claim keeps its key and lease for as long as the lease lives; then it gets new
    /// ones.
    pub(super) async fn claim_key(&self, connection: &Connection, claim: &Claim) -> Result<ClaimKey> {
        let known = self.find(claim.id);
        let known = known.filter(|claim_key| !claim_key.lease.has_ended());
        if let Some(claim_key) = known {
            if !claim_key.lease.is_fresh() {
                Box::pin(self.leases.refresh(connection, &claim_key.lease)).await?;
            }
            if !claim_key.lease.has_ended() {
                return Ok(claim_key);
            }
        }
        let lease = self.leases.get(connection, &self.options, claim.ttl).await?;
        let key = self.key_pool.take_or(keys::key(&self.options.namespace, claim, lease.id));
        let claim_key = ClaimKey::new(lease, key);
        lock_ignoring_poison(&self.claim_keys).insert(claim.id, claim_key.clone());
        Ok(claim_key)
    }

    /// The key of a claim that was sent and not released.
    pub(super) fn find(&self, claim: ClaimId) -> Option<ClaimKey> {
        lock_ignoring_poison(&self.claim_keys).get(&claim).cloned()
    }

    /// Updates what is known of a claim, if it was not released.
    pub(super) fn update(&self, claim: ClaimId, update: impl FnOnce(&mut ClaimKey)) {
        let former = {
            let mut claim_keys = lock_ignoring_poison(&self.claim_keys);
            let Some(claim_key) = claim_keys.get_mut(&claim) else { return };
            let former = claim_key.clone();
            update(claim_key);
            former
        };
        // Dropped after the mutex is unlocked: the last owner of a watch cancels it.
        drop(former);
    }

    /// Forgets a claim whose key does not exist: the claim is over. The key is used again, unless an
    /// abandoned request may still put or delete it.
    pub(super) fn forget(&self, claim: ClaimId) {
        lock_ignoring_poison(&self.unanswered_releases).remove(&claim);
        let former = lock_ignoring_poison(&self.claim_keys).remove(&claim);
        if let Some(former) = former.filter(|key| key.puts.is_none() && key.deletes.is_none()) {
            self.key_pool.put_back(former.key);
        }
    }

    /// Sets the effect of a failed request on a claim. The core does not release a claim for which nothing
    /// was done, so that claim is forgotten here. If the claim has a key, or may have one, the effect is
    /// unknown even if the last request did nothing.
    pub(super) fn claim_failed(&self, claim: ClaimId, error: Error) -> Error {
        if error.effect() != Effect::None || self.find(claim).as_ref().is_some_and(ClaimKey::may_exist) {
            return error.with_effect(Effect::Unknown);
        }
        self.forget(claim);
        error
    }

    /// Notes claims whose release was not answered.
    pub(super) fn add_unanswered_releases(&self, claims: impl IntoIterator<Item = ClaimId>) {
        lock_ignoring_poison(&self.unanswered_releases).extend(claims);
    }

    pub(super) fn has_unanswered_releases(&self) -> bool {
        !lock_ignoring_poison(&self.unanswered_releases).is_empty()
    }

    /// The claims whose release was not answered, and their keys.
    pub(super) fn unanswered_releases(&self) -> Vec<(ClaimId, ClaimKey)> {
        let claims = lock_ignoring_poison(&self.unanswered_releases).clone();
        claims.into_iter().filter_map(|claim| Some((claim, self.find(claim)?))).collect()
    }

    /// The claims that are held under this lease, and their keys.
    pub(super) fn held_under(&self, lease: i64) -> Vec<(ClaimId, Vec<u8>)> {
        let claim_keys = lock_ignoring_poison(&self.claim_keys);
        let held = claim_keys.iter().filter(|(_, key)| key.lease.id == lease && key.holder_watch.is_some());
        held.map(|(id, claim_key)| (*id, claim_key.key.clone())).collect()
    }
}
