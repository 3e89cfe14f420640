//! What the handles of one client share: its connections, its leases, and where its claims stand.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::connection::Connection;
use super::failure::unreachable;
use super::fence::Unanswered;
use super::keys;
use super::lease::Lease;
use super::names::Names;
use super::options::Options;
use super::waiting::Waiting;
use super::watches::Watch;
use crate::engine::{Claim, ClaimId};
use crate::engines::lost_hints::LossHints;
use crate::net::deadline;
use crate::net::per_runtime::PerRuntime;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Loss, Result};

/// One client's session with one cluster.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) loss_hints: Arc<LossHints>,
    connections: PerRuntime<Connection>,
    /// The member that the next connection is tried with first.
    next: AtomicUsize,
    version: Mutex<String>,
    /// One per ttl, in seconds.
    leases: Mutex<HashMap<i64, Slot>>,
    claims: Mutex<HashMap<ClaimId, Place>>,
    names: Names,
    /// Claims whose release was not answered. Their lease is kept alive for other claims, so their keys would
    /// not expire by themselves.
    owed: Mutex<HashSet<ClaimId>>,
    /// Held by the task that deletes these keys.
    pub(super) paying: tokio::sync::Mutex<()>,
}

/// The lease for a ttl.
#[derive(Default)]
struct Slot {
    lease: Option<Arc<Lease>>,
    /// The id of a lease that may have been granted without our hearing of it.
    asked: Option<i64>,
}

/// Where a claim stands.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) lease: Arc<Lease>,
    pub(super) key: Vec<u8>,
    /// When its key was created, once that is known.
    pub(super) revision: Option<i64>,
    /// Unanswered requests that put its key, and that delete it.
    pub(super) puts: Arc<Unanswered>,
    pub(super) deletes: Arc<Unanswered>,
    /// What it waits for.
    pub(super) waiting: Option<Arc<Waiting>>,
    /// Watches over its own key, once it was renewed.
    pub(super) held: Option<Arc<Watch>>,
    /// Why it is lost, once that is known.
    pub(super) loss: Option<Loss>,
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            loss_hints: Arc::default(),
            connections: PerRuntime::default(),
            next: AtomicUsize::new(0),
            version: Mutex::default(),
            leases: Mutex::default(),
            claims: Mutex::default(),
            names: Names::default(),
            owed: Mutex::default(),
            paying: tokio::sync::Mutex::default(),
        }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If no member can be reached and used. Nothing was sent then.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connections.get(|| self.open()).await
    }

    /// Tries one member after the other. What the last one says is told; but a user whom one refuses is refused by all.
    async fn open(&self) -> Result<Connection> {
        let (members, first) = (&self.options.members, self.next.load(Ordering::Relaxed));
        let limits = match members.len() {
            1 => &[deadline::ETCD_CONNECT][..],
            _ => &[deadline::ETCD_CONNECT_WITH_OTHERS, deadline::ETCD_CONNECT],
        };
        let rounds = limits.iter().flat_map(|limit| (0..members.len()).map(move |turn| (*limit, turn)));
        let mut failure = None;
        for (limit, turn) in rounds {
            let at = (first + turn) % members.len();
            // Whoever opens the next connection begins with another: this one may not answer before this call is dropped.
            self.next.store(at + 1, Ordering::Relaxed);
            match Connection::open(&self.options, &members[at], limit).await {
                Ok(connection) => {
                    lock_ignoring_poison(&self.version).clone_from(&connection.version);
                    return Ok(connection);
                }
                Err(error) if error.kind() == ErrorKind::Denied => return Err(error),
                // Whatever a greeting came to, nothing was asked for yet.
                Err(error) => failure = Some(error.with_effect(Effect::None)),
            }
        }
        let failure = failure.expect("a cluster has members");
        Err(match members.len() {
            1 => failure,
            _ => {
                let message = format!("no member can be used; the last error: {failure}");
                let error = unreachable(&self.options.place(), message);
                if failure.is_about_tls() { error.with_tls_failure() } else { error }
            }
        })
    }

    /// What the member that was connected to last says it is.
    pub(super) fn version(&self) -> String {
        lock_ignoring_poison(&self.version).clone()
    }

    /// The lease for claims of this ttl, with most of its time left.
    pub(super) async fn lease(&self, connection: &Connection, ttl: Duration) -> Result<Arc<Lease>> {
        let seconds = whole_seconds(ttl);
        if let Some(lease) = self.known_lease(seconds).filter(|lease| lease.is_fresh()) {
            return Ok(lease);
        }
        // Boxed, because most claims find a lease.
        Box::pin(self.fresh_lease(connection, seconds)).await
    }

    async fn fresh_lease(&self, connection: &Connection, seconds: i64) -> Result<Arc<Lease>> {
        let _turn = connection.turn().await?;
        if let Some(lease) = self.known_lease(seconds) {
            if !lease.is_fresh() {
                lease.keep(connection).await?;
            }
            if !lease.is_over() {
                return Ok(lease);
            }
        }
        let id = *lock_ignoring_poison(&self.leases)
            .entry(seconds)
            .or_default()
            .asked
            .get_or_insert_with(Lease::draw_id);
        let lease = Arc::new(Lease::grant(connection, &self.options, id, seconds).await?);
        let mut leases = lock_ignoring_poison(&self.leases);
        let slot = leases.entry(seconds).or_default();
        // A task on another connection may have received the same lease.
        if let Some(known) = slot.lease.as_ref().filter(|known| known.id == id) {
            return Ok(known.clone());
        }
        (slot.lease, slot.asked) = (Some(lease.clone()), None);
        Ok(lease)
    }

    /// Makes sure that most of a lease is left. One task of a connection renews it for all others.
    async fn refresh(&self, connection: &Connection, lease: &Lease) -> Result<()> {
        let _turn = connection.turn().await?;
        if !lease.is_over() && !lease.is_fresh() {
            lease.keep(connection).await?;
        }
        Ok(())
    }

    fn known_lease(&self, seconds: i64) -> Option<Arc<Lease>> {
        lock_ignoring_poison(&self.leases).get(&seconds)?.lease.clone().filter(|lease| !lease.is_over())
    }

    /// Where a claim stands, or will: under its lease for as long as that lives, then under a new one.
    pub(super) async fn place(&self, connection: &Connection, claim: &Claim) -> Result<Place> {
        let known = self.known(claim.id);
        let known = known.filter(|place| !place.lease.is_over());
        if let Some(place) = known {
            if !place.lease.is_fresh() {
                Box::pin(self.refresh(connection, &place.lease)).await?;
            }
            if !place.lease.is_over() {
                return Ok(place);
            }
        }
        let lease = self.lease(connection, claim.ttl).await?;
        let key = self.names.choose(keys::key(&self.options.namespace, claim, lease.id));
        let (puts, deletes) = Default::default();
        let place =
            Place { lease, key, revision: None, puts, deletes, waiting: None, held: None, loss: None };
        lock_ignoring_poison(&self.claims).insert(claim.id, place.clone());
        Ok(place)
    }

    /// Where a claim stands, if it was ever asked for and not released.
    pub(super) fn known(&self, claim: ClaimId) -> Option<Place> {
        lock_ignoring_poison(&self.claims).get(&claim).cloned()
    }

    /// Notes something of a claim that is still known.
    pub(super) fn note(&self, claim: ClaimId, note: impl FnOnce(&mut Place)) {
        let former = {
            let mut claims = lock_ignoring_poison(&self.claims);
            let Some(place) = claims.get_mut(&claim) else { return };
            let former = place.clone();
            note(place);
            former
        };
        // With the mutex free again: a watch ends with its last owner.
        drop(former);
    }

    /// Forgets a claim whose key does not exist: the claim is over. A request that was given up may still
    /// delete a key of that name.
    pub(super) fn forget(&self, claim: ClaimId) {
        lock_ignoring_poison(&self.owed).remove(&claim);
        let former = lock_ignoring_poison(&self.claims).remove(&claim);
        if let Some(place) = former.filter(|place| place.puts.is_none() && place.deletes.is_none()) {
            self.names.give_back(place.key);
        }
    }

    /// Sets the effect of a failure on a claim. The core does not release a claim for which nothing was done,
    /// so that claim is forgotten here. If the claim has a key, or may have one, the effect is unknown even
    /// if the last request did nothing.
    pub(super) fn failed(&self, claim: ClaimId, error: Error) -> Error {
        let has_key = |place: Place| place.revision.is_some() || !place.puts.is_none();
        if error.effect() != Effect::None || self.known(claim).is_some_and(has_key) {
            return error.with_effect(Effect::Unknown);
        }
        self.forget(claim);
        error
    }

    /// Whether keys remain to be deleted.
    pub(super) fn owes(&self) -> bool {
        !lock_ignoring_poison(&self.owed).is_empty()
    }

    /// The places of the claims whose keys remain to be deleted.
    pub(super) fn owed(&self) -> Vec<(ClaimId, Place)> {
        let owed = lock_ignoring_poison(&self.owed).clone();
        owed.into_iter().filter_map(|claim| Some((claim, self.known(claim)?))).collect()
    }

    /// The claims that are held under this lease, and their keys.
    pub(super) fn held_under(&self, lease: i64) -> Vec<(ClaimId, Vec<u8>)> {
        let claims = lock_ignoring_poison(&self.claims);
        let held = claims.iter().filter(|(_, place)| place.lease.id == lease && place.held.is_some());
        held.map(|(id, place)| (*id, place.key.clone())).collect()
    }
}

/// Leases are counted in these.
fn whole_seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// A release under way. Dropped before it was answered, it is owed.
pub(super) struct Owing<'a> {
    session: &'a Session,
    claim: Option<ClaimId>,
}

impl<'a> Owing<'a> {
    pub(super) fn new(session: &'a Session, claim: ClaimId) -> Self {
        Self { session, claim: Some(claim) }
    }

    pub(super) fn paid(mut self) {
        self.claim.take().into_iter().for_each(|claim| self.session.forget(claim));
    }
}

impl Drop for Owing<'_> {
    fn drop(&mut self) {
        lock_ignoring_poison(&self.session.owed).extend(self.claim.take());
    }
}
