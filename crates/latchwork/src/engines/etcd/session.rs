//! What the handles of one client share: its connections, its leases, and where its claims stand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::failure::unreachable;
use super::keys;
use super::lease::Lease;
use super::link::Link;
use super::names::Names;
use super::options::Options;
use super::waiting::Waiting;
use super::watches::Watch;
use crate::engine::{Claim, ClaimId};
use crate::engines::links::Links;
use crate::engines::news::News;
use crate::locked::locked;
use crate::{Effect, ErrorKind, Loss, Result};

/// One client's session with one cluster.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) news: Arc<News>,
    links: Links<Link>,
    /// The member that the next connection is tried with first.
    next: AtomicUsize,
    version: Mutex<String>,
    /// One per ttl, in seconds.
    leases: Mutex<HashMap<i64, Slot>>,
    claims: Mutex<HashMap<ClaimId, Place>>,
    names: Names,
    /// The keys of claims whose release was not answered. Their lease is kept alive for others, so that they would not go
    /// by themselves.
    owed: Mutex<HashMap<ClaimId, Vec<u8>>>,
}

/// The lease for a ttl, and the right to ask for it.
#[derive(Default)]
struct Slot {
    lease: Option<Arc<Lease>>,
    /// The id of a lease that may have been granted without our hearing of it.
    asked: Option<i64>,
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// Where a claim stands.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) lease: Arc<Lease>,
    pub(super) key: Vec<u8>,
    /// When its key was created, once that is known.
    pub(super) revision: Option<i64>,
    /// How many requests that change its key were sent and not answered: they may still arrive.
    unanswered: Arc<AtomicU32>,
    /// What it waits for.
    pub(super) waiting: Option<Arc<Waiting>>,
    /// Watches over its own key, once it was renewed.
    pub(super) held: Option<Arc<Watch>>,
    /// Why it is lost, once that is known.
    pub(super) loss: Option<Loss>,
}

impl Place {
    /// Something that changes its key is about to be sent. Whoever is kept from hearing the answer never says that there
    /// was one.
    pub(super) fn sending(&self) {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
    }

    /// It was answered, so it will not arrive any more.
    pub(super) fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }

    fn is_answered(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) == 0
    }
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            news: Arc::default(),
            links: Links::default(),
            next: AtomicUsize::new(0),
            version: Mutex::default(),
            leases: Mutex::default(),
            claims: Mutex::default(),
            names: Names::default(),
            owed: Mutex::default(),
        }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If no member can be reached and used. Nothing was sent then.
    pub(super) async fn link(&self) -> Result<Arc<Link>> {
        self.links.get(|| self.open()).await
    }

    /// Tries one member after the other. What the last one says is told; but a user whom one refuses is refused by all.
    async fn open(&self) -> Result<Link> {
        let (members, first) = (&self.options.members, self.next.load(Ordering::Relaxed));
        let mut failure = None;
        for turn in 0..members.len() {
            let at = (first + turn) % members.len();
            // Whoever opens the next connection begins with another: this one may not answer before this call is dropped.
            self.next.store(at + 1, Ordering::Relaxed);
            match Link::open(&self.options, &members[at]).await {
                Ok(link) => {
                    locked(&self.version).clone_from(&link.version);
                    return Ok(link);
                }
                Err(error) if error.kind() == ErrorKind::Denied => return Err(error),
                // Whatever a greeting came to, nothing was asked for yet.
                Err(error) => failure = Some(error.with_effect(Effect::None)),
            }
        }
        let failure = failure.expect("a cluster has members");
        Err(match members.len() {
            1 => failure,
            _ => unreachable(&self.options.place(), format!("no member can be used; the last: {failure}")),
        })
    }

    /// What the member that was connected to last says it is.
    pub(super) fn version(&self) -> String {
        locked(&self.version).clone()
    }

    /// The lease for claims of this ttl, with most of its time left.
    pub(super) async fn lease(&self, link: &Link, ttl: Duration) -> Result<Arc<Lease>> {
        let seconds = whole_seconds(ttl);
        if let Some(lease) = self.known_lease(seconds).filter(|lease| lease.is_fresh()) {
            return Ok(lease);
        }
        // Boxed, because most claims find a lease.
        Box::pin(self.fresh_lease(link, seconds)).await
    }

    async fn fresh_lease(&self, link: &Link, seconds: i64) -> Result<Arc<Lease>> {
        let asking = locked(&self.leases).entry(seconds).or_default().asking.clone();
        let _turn = asking.lock().await;
        if let Some(lease) = self.known_lease(seconds) {
            if !lease.is_fresh() {
                lease.keep(link).await?;
            }
            if !lease.is_over() {
                return Ok(lease);
            }
        }
        let id = *locked(&self.leases).entry(seconds).or_default().asked.get_or_insert_with(Lease::draw_id);
        let lease = Arc::new(Lease::grant(link, &self.options, id, seconds).await?);
        let mut leases = locked(&self.leases);
        let slot = leases.entry(seconds).or_default();
        (slot.lease, slot.asked) = (Some(lease.clone()), None);
        Ok(lease)
    }

    fn known_lease(&self, seconds: i64) -> Option<Arc<Lease>> {
        locked(&self.leases).get(&seconds)?.lease.clone().filter(|lease| !lease.is_over())
    }

    /// Where a claim stands, or will: under its lease for as long as that lives, then under a new one.
    pub(super) async fn place(&self, link: &Link, claim: &Claim) -> Result<Place> {
        let known = self.known(claim.id);
        let known = known.filter(|place| !place.lease.is_over());
        if let Some(place) = known {
            if !place.lease.is_fresh() {
                Box::pin(place.lease.keep(link)).await?;
            }
            if !place.lease.is_over() {
                return Ok(place);
            }
        }
        let lease = self.lease(link, claim.ttl).await?;
        let key = self.names.choose(keys::key(&self.options.namespace, claim, lease.id));
        let unanswered = Arc::default();
        let place = Place { lease, key, revision: None, unanswered, waiting: None, held: None, loss: None };
        locked(&self.claims).insert(claim.id, place.clone());
        Ok(place)
    }

    /// Where a claim stands, if it was ever asked for and not released.
    pub(super) fn known(&self, claim: ClaimId) -> Option<Place> {
        locked(&self.claims).get(&claim).cloned()
    }

    /// Where a claim stood that was released before, if a request of it may still be under way.
    pub(super) fn former(&self, claim: ClaimId) -> Option<Vec<u8>> {
        self.names.former(claim)
    }

    /// Notes something of a claim that is still known.
    pub(super) fn note(&self, claim: ClaimId, note: impl FnOnce(&mut Place)) {
        let former = {
            let mut claims = locked(&self.claims);
            let Some(place) = claims.get_mut(&claim) else { return };
            let former = place.clone();
            note(place);
            former
        };
        // With the mutex free again: a watch ends with its last owner.
        drop(former);
    }

    /// Forgets a claim whose key is not there: it is over.
    pub(super) fn forget(&self, claim: ClaimId) {
        let former = locked(&self.claims).remove(&claim);
        match former {
            None => {}
            Some(place) if place.is_answered() => self.names.give_back(place.key),
            Some(place) => self.names.remember(claim, place.key),
        }
    }

    /// Forgets a claim that was refused, if nothing of it can be there: nobody may come to release it.
    pub(super) fn forget_unsent(&self, claim: ClaimId) {
        if self.known(claim).is_some_and(|place| place.revision.is_none() && place.is_answered()) {
            self.forget(claim);
        }
    }

    /// The keys that are still to be deleted, and whose they were.
    pub(super) fn owed(&self) -> Vec<(ClaimId, Vec<u8>)> {
        locked(&self.owed).iter().map(|(claim, key)| (*claim, key.clone())).collect()
    }

    /// A released claim's key is gone.
    pub(super) fn paid(&self, claim: ClaimId) {
        locked(&self.owed).remove(&claim);
        self.forget(claim);
    }

    /// The claims that are held under this lease, and their keys.
    pub(super) fn held_under(&self, lease: i64) -> Vec<(ClaimId, Vec<u8>)> {
        let claims = locked(&self.claims);
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
    claim: ClaimId,
    key: Option<Vec<u8>>,
}

impl<'a> Owing<'a> {
    pub(super) fn new(session: &'a Session, claim: ClaimId, key: Vec<u8>) -> Self {
        Self { session, claim, key: Some(key) }
    }

    pub(super) fn paid(mut self) {
        self.key = None;
        self.session.paid(self.claim);
    }
}

impl Drop for Owing<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            locked(&self.session.owed).insert(self.claim, key);
        }
    }
}
