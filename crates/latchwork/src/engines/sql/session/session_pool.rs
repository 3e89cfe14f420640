//! The connections and claims that the handles of one client share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::leased_connection::LeasedConnection;
use super::liveness::Liveness;
use super::session_claims::{ClaimPhase, ServerWait, SessionClaims};
use super::session_store::{CloseHook, open_in_time};
use super::{Key, Moving, SessionConnection, SessionStore};
use crate::engine::{Claim, ClaimId, Grant, Valid};
use crate::engines::sql::sweep::Sweeps;
use crate::names::BuildIdentityHasher;
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// The most idle connections that are kept for later waits. They hold no locks.
const MAX_IDLE: usize = 2;

/// The most keys that are cached.
const MAX_KEYS: usize = 1_024;

/// Ends a connection whose opening is cancelled, without waiting for replies that may never arrive.
struct SessionOpeningGuard<'a>(&'a Moving);

impl Drop for SessionOpeningGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Guards a wait in the server. If the task is dropped with its runtime, the claim is sent again, and the
/// connection of the wait ends.
struct WaitGuard<'a, S: SessionStore> {
    pool: &'a SessionPool<S>,
    id: ClaimId,
    wait: ServerWait,
}

impl<S: SessionStore> Drop for WaitGuard<'_, S> {
    fn drop(&mut self) {
        self.pool.end_wait(self.id, self.wait, ClaimPhase::WaitEnded(None), None);
    }
}

/// A client's claims and connections.
pub(super) struct SessionPool<S: SessionStore> {
    pub(super) store: S,
    pub(super) claims: Arc<SessionClaims<S::Connection>>,
    /// The keys of names used recently: hashing a name takes longer than all other local work for a free
    /// lock.
    keys: Mutex<HashMap<LockName, Key, BuildIdentityHasher>>,
    idle: Mutex<Vec<Arc<LeasedConnection<S::Connection>>>>,
    pub(super) thread: OwnThread,
    pub(super) sweeps: Sweeps,
}

impl<S: SessionStore> SessionPool<S> {
    pub(super) fn new(store: S, thread: OwnThread) -> Arc<Self> {
        let (keys, idle) = (Mutex::default(), Mutex::default());
        let (claims, sweeps) = (Arc::default(), Sweeps::from_now());
        Arc::new(Self { store, claims, keys, idle, thread, sweeps })
    }

    /// The server's name for a lock.
    pub(super) fn key(&self, name: &LockName) -> Key {
        let mut keys = lock_ignoring_poison(&self.keys);
        if let Some(key) = keys.get(name) {
            return *key;
        }
        if keys.len() >= MAX_KEYS {
            keys.clear();
        }
        let key = self.store.key(name);
        keys.insert(name.clone(), key);
        key
    }

    /// Whether a claim gets a token.
    pub(super) fn fences(&self, claim: &Claim) -> bool {
        claim.fenced || self.store.terms().fences_all
    }

    /// Opens a connection, on the runtime of the caller.
    pub(super) async fn open(&self) -> Result<LeasedConnection<S::Connection>> {
        let liveness = Liveness::new(self.store.terms().ttl);
        let (claims, ended) = (Arc::downgrade(&self.claims), liveness.clone());
        let on_close = move || {
            ended.close();
            if let Some(claims) = claims.upgrade() {
                claims.connection_ended(&ended);
            }
        };
        let moving = Moving::new(self.thread.clone(), CloseHook::new(on_close));
        let guard = SessionOpeningGuard(&moving);
        let opening = moving.moved(self.store.open(&moving));
        let connection = open_in_time(&self.store, &self.thread, opening).await?;
        std::mem::forget(guard);
        Ok(LeasedConnection { connection, liveness, moving })
    }

    /// Keeps a connection that holds no locks, for a later wait.
    pub(super) fn put_back(&self, leased: Arc<LeasedConnection<S::Connection>>) {
        let mut idle = lock_ignoring_poison(&self.idle);
        let is_new = !idle.iter().any(|other| Arc::ptr_eq(other, &leased));
        if is_new && idle.len() < MAX_IDLE && !leased.is_unusable() {
            idle.push(leased);
        }
    }

    fn take_idle(&self) -> Option<Arc<LeasedConnection<S::Connection>>> {
        let mut idle = lock_ignoring_poison(&self.idle);
        std::iter::from_fn(|| idle.pop()).find(|leased| !leased.is_unusable())
    }

    /// Waits in the server for a slice, and records the result in the claim's entry. If the claim is gone by
    /// then, the connection ends, and with it a lock that was granted on it.
    pub(super) async fn wait_in_server(self: Arc<Self>, claim: Arc<Claim>, wait: ServerWait) {
        let guard = WaitGuard { pool: &self, id: claim.id, wait };
        let waited = self.wait_on_own_connection(&claim, wait).await;
        // The claim may wait again as soon as it has the result, and the guard must not end that wait.
        std::mem::forget(guard);
        let error = match waited {
            Ok(Some((leased, token))) => {
                let is_granted = self.end_wait(claim.id, wait, ClaimPhase::Held(token), Some(leased.clone()));
                if !is_granted {
                    leased.close();
                }
                return;
            }
            Ok(None) => None,
            Err(error) => Some(Arc::new(error)),
        };
        self.end_wait(claim.id, wait, ClaimPhase::WaitEnded(error), None);
    }

    /// Records the result of a wait. Returns false if the claim is no longer in this wait.
    fn end_wait(
        &self,
        id: ClaimId,
        wait: ServerWait,
        phase: ClaimPhase,
        leased: Option<Arc<LeasedConnection<S::Connection>>>,
    ) -> bool {
        self.claims.update_wait(id, wait, |entry| {
            (entry.phase, entry.leased) = (phase, leased);
            entry.wait_ended.iter().for_each(|wait_ended| wait_ended.notify_one());
        })
    }

    async fn wait_on_own_connection(
        &self,
        claim: &Claim,
        wait: ServerWait,
    ) -> Result<Option<(Arc<LeasedConnection<S::Connection>>, Option<u64>)>> {
        let leased = match self.take_idle() {
            Some(leased) => leased,
            None => Arc::new(self.open().await?),
        };
        if !self.claims.update_wait(claim.id, wait, |entry| entry.leased = Some(leased.clone())) {
            self.put_back(leased);
            return Ok(None);
        }
        let key = self.key(&claim.name);
        if !leased.request(leased.connection.wait_lock(key, &claim.note)).await? {
            // Removed from the entry before the wait ends: after that, another claim may use this connection.
            if self.claims.update_wait(claim.id, wait, |entry| entry.leased = None) {
                self.put_back(leased);
            }
            return Ok(None);
        }
        let token = match self.fences(claim) {
            true => match leased.request(leased.connection.draw_token(&claim.name)).await {
                Ok(token) => Some(token),
                Err(error) => {
                    // Otherwise the connection would keep a lock that no claim knows of.
                    leased.close();
                    return Err(error);
                }
            },
            false => None,
        };
        Ok(Some((leased, token)))
    }

    /// The grant of a lock that is held on this connection. A large part of a ttl may have passed while the
    /// claim waited in the server, so the lease is renewed.
    ///
    /// # Errors
    /// If the connection has ended meanwhile.
    pub(super) async fn grant(
        self: &Arc<Self>,
        leased: &Arc<LeasedConnection<S::Connection>>,
        token: Option<u64>,
    ) -> Result<Grant> {
        if token.is_some() && self.sweeps.is_time() {
            self.sweep_if_due(leased.clone());
        }
        leased.heartbeat(self.store.terms().ttl / 2).await;
        if leased.is_unusable() {
            return Err(self.connection_ended().with_effect(Effect::Unknown));
        }
        Ok(Grant { token, valid: Valid::Until(leased.liveness.valid_until()) })
    }

    pub(super) fn connection_ended(&self) -> Error {
        let (engine, shown_as) = (self.store.engine(), self.store.shown_as());
        Error::new(ErrorKind::Unreachable, format!("{engine} at {shown_as}: the connection ended"))
    }
}
