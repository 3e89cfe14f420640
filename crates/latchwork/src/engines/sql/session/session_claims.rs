//! This client's own claims.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime;
use tokio::sync::Notify;

use super::Key;
use super::leased_connection::LeasedConnection;
use super::liveness::Liveness;
use crate::engine::{Busy, Claim, ClaimId};
use crate::engines::lost_hints::LossHints;
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, LockName, Result};

/// Every claim that was sent and is not released yet.
pub(super) struct SessionClaims<C> {
    entries: Mutex<Entries<C>>,
    waits: AtomicU64,
    pub(super) loss_hints: LossHints,
}

struct Entries<C> {
    by_id: HashMap<ClaimId, ClaimEntry<C>, BuildIdentityHasher>,
    /// The claims that hold a lock, or may hold it. A server grants a lock again to the connection that holds
    /// it, so this is what prevents two holders in one client (C7).
    by_key: BTreeSet<(Key, ClaimId)>,
}

impl<C> Entries<C> {
    /// Records whether a claim may hold the lock.
    fn mark(&mut self, key: Key, id: ClaimId, may_hold: bool) {
        match may_hold {
            true => self.by_key.insert((key, id)),
            false => self.by_key.remove(&(key, id)),
        };
    }

    /// Another claim of this client that may hold this lock. Claims on closed connections do not count: the
    /// lock cannot be granted again there, and the server decides.
    fn other_holder(&self, key: Key, id: ClaimId) -> Option<&ClaimEntry<C>> {
        let is_closed =
            |entry: &ClaimEntry<C>| entry.leased.as_ref().is_some_and(|leased| leased.liveness.is_closed());
        let all = self.by_key.range((key, ClaimId::from_bytes([0; 16]))..);
        let others = all.take_while(|(other, _)| *other == key).filter(|(_, other)| *other != id);
        others.filter_map(|(_, other)| self.by_id.get(other)).find(|entry| !is_closed(entry))
    }
}

/// One claim.
pub(super) struct ClaimEntry<C> {
    pub(super) name: LockName,
    pub(super) key: Key,
    pub(super) phase: ClaimPhase,
    /// The connection that it was last sent on.
    pub(super) leased: Option<Arc<LeasedConnection<C>>>,
    /// The last answer to the claim.
    pub(super) busy: Option<Busy>,
    /// Notified when the wait in the server ends. Most claims never wait.
    pub(super) wait_ended: Option<Arc<Notify>>,
}

impl<C> Clone for ClaimEntry<C> {
    fn clone(&self) -> Self {
        let (name, key, phase) = (self.name.clone(), self.key, self.phase.clone());
        let (leased, busy, wait_ended) = (self.leased.clone(), self.busy.clone(), self.wait_ended.clone());
        Self { name, key, phase, leased, busy, wait_ended }
    }
}

/// The phase of a claim.
#[derive(Clone, Debug)]
pub(super) enum ClaimPhase {
    /// Sent and not answered: it may hold the lock.
    Unconfirmed,
    /// Not granted, because the lock has another holder.
    Idle,
    /// Waits in the server.
    Waiting(ServerWait),
    /// The wait ended without a grant: with this error, or at the end of its slice.
    WaitEnded(Option<Arc<Error>>),
    /// Holds the lock, with this token.
    Held(Option<u64>),
}

/// One wait in the server. When it ends, the same claim may already be in another wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerWait {
    number: u64,
    /// The runtime of the task that waits.
    pub(super) runtime: runtime::Id,
}

impl ClaimPhase {
    pub(super) fn is(&self, wait: ServerWait) -> bool {
        matches!(self, Self::Waiting(current) if *current == wait)
    }

    fn may_hold(&self) -> bool {
        matches!(self, Self::Unconfirmed | Self::Held(_))
    }
}

/// The result of [`SessionClaims::begin_claim`].
pub(super) enum BeginClaim<C> {
    /// The claim already holds the lock.
    Held(Arc<LeasedConnection<C>>, Option<u64>),
    /// Another claim of this client may hold the lock.
    HeldByOther,
    /// The claim waits in the server.
    Waiting(Option<Busy>),
    /// The claim is to be sent on the connection in the call.
    SendOn(Arc<LeasedConnection<C>>),
    /// The claim is to be sent. An earlier request of it is unanswered, on this connection.
    Send(Option<Arc<LeasedConnection<C>>>),
}

impl<C> Default for SessionClaims<C> {
    fn default() -> Self {
        let entries = Mutex::new(Entries { by_id: HashMap::default(), by_key: BTreeSet::new() });
        Self { entries, waits: AtomicU64::new(0), loss_hints: LossHints::default() }
    }
}

impl<C> SessionClaims<C> {
    /// Records that a claim is about to be sent: from then on it may hold the lock, answered or not. It is
    /// sent on `leased`, if there is one and nothing has to be done before.
    ///
    /// # Errors
    /// If another name has the same key.
    pub(super) fn begin_claim(
        &self,
        claim: &Claim,
        key: Key,
        leased: Option<Arc<LeasedConnection<C>>>,
    ) -> Result<BeginClaim<C>> {
        let mut entries = lock_ignoring_poison(&self.entries);
        let other = entries.other_holder(key, claim.id);
        if let Some(other) = other.filter(|other| other.name != claim.name) {
            let message = format!("has the same 64-bit key as {:?}; rename one of them", other.name.as_str());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let is_held_by_other = other.is_some();
        let entry = entries.by_id.entry(claim.id).or_insert_with(|| ClaimEntry {
            name: claim.name.clone(),
            key,
            phase: ClaimPhase::Idle,
            leased: None,
            busy: None,
            wait_ended: None,
        });
        match &entry.phase {
            ClaimPhase::Held(token) => {
                if let Some(leased) = &entry.leased {
                    return Ok(BeginClaim::Held(leased.clone(), *token));
                }
            }
            ClaimPhase::Waiting(_) => return Ok(BeginClaim::Waiting(entry.busy.clone())),
            _ if is_held_by_other => return Ok(BeginClaim::HeldByOther),
            _ => {}
        }
        let unanswered =
            matches!(entry.phase, ClaimPhase::Unconfirmed).then(|| entry.leased.take()).flatten();
        entry.phase = ClaimPhase::Unconfirmed;
        let begin = match leased {
            Some(leased) if unanswered.is_none() => {
                entry.leased = Some(leased.clone());
                BeginClaim::SendOn(leased)
            }
            _ => BeginClaim::Send(unanswered),
        };
        entries.mark(key, claim.id, true);
        Ok(begin)
    }

    /// Records that a claim begins to wait in the server, on this runtime. `None` if it has no reason to wait
    /// any more.
    pub(super) fn begin_wait(&self, id: ClaimId, runtime: runtime::Id) -> Option<ServerWait> {
        let wait = ServerWait { number: self.waits.fetch_add(1, Ordering::Relaxed), runtime };
        let mut begun = None;
        self.update(id, |entry| {
            if matches!(entry.phase, ClaimPhase::Idle) {
                (entry.phase, begun) = (ClaimPhase::Waiting(wait), Some(wait));
                entry.wait_ended.get_or_insert_default();
            }
        });
        begun
    }

    /// Changes the entry of a claim if it is still in this wait. Returns whether it is.
    pub(super) fn update_wait(
        &self,
        id: ClaimId,
        wait: ServerWait,
        change: impl FnOnce(&mut ClaimEntry<C>),
    ) -> bool {
        let mut still_waits = false;
        self.update(id, |entry| {
            still_waits = entry.phase.is(wait);
            if still_waits {
                change(entry);
            }
        });
        still_waits
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<ClaimEntry<C>> {
        lock_ignoring_poison(&self.entries).by_id.get(&id).cloned()
    }

    /// Changes the entry of a claim. Returns whether the claim is known.
    pub(super) fn update(&self, id: ClaimId, change: impl FnOnce(&mut ClaimEntry<C>)) -> bool {
        let mut entries = lock_ignoring_poison(&self.entries);
        let Some(entry) = entries.by_id.get_mut(&id) else { return false };
        let before = entry.phase.may_hold();
        change(entry);
        let (key, may_hold) = (entry.key, entry.phase.may_hold());
        if may_hold != before {
            entries.mark(key, id, may_hold);
        }
        true
    }

    /// Records the connection on which a claim is about to be sent. Returns false if another claim of this
    /// client may hold the lock by now: on one connection the server would grant it to both.
    pub(super) fn set_connection(&self, id: ClaimId, key: Key, leased: &Arc<LeasedConnection<C>>) -> bool {
        let mut entries = lock_ignoring_poison(&self.entries);
        if entries.other_holder(key, id).is_some() {
            return false;
        }
        entries.by_id.get_mut(&id).into_iter().for_each(|entry| entry.leased = Some(leased.clone()));
        true
    }

    /// Forgets a claim of which nothing is left on the server.
    pub(super) fn forget(&self, id: ClaimId) {
        let mut entries = lock_ignoring_poison(&self.entries);
        if let Some(entry) = entries.by_id.remove(&id) {
            entries.mark(entry.key, id, false);
        }
    }

    /// Forgets a claim that was not granted. A claim that may hold the lock is kept until it is released.
    pub(super) fn forget_idle(&self, id: ClaimId) {
        let is_idle = |entry: ClaimEntry<C>| matches!(entry.phase, ClaimPhase::Idle);
        if self.get(id).is_some_and(is_idle) {
            self.forget(id);
        }
    }

    /// A connection ended: the claims that hold locks on it are reported as lost.
    pub(super) fn connection_ended(&self, liveness: &Arc<Liveness>) {
        let entries = lock_ignoring_poison(&self.entries);
        let is_on = |entry: &ClaimEntry<C>| {
            entry.leased.as_ref().is_some_and(|leased| Arc::ptr_eq(&leased.liveness, liveness))
        };
        let ended: Vec<_> = entries
            .by_id
            .iter()
            .filter(|(_, entry)| is_on(entry) && matches!(entry.phase, ClaimPhase::Held(_)))
            .map(|(id, _)| *id)
            .collect();
        drop(entries);
        ended.into_iter().for_each(|id| self.loss_hints.tell(id));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn claim(name: &str) -> Claim {
        Claim::new(LockName::new(name).unwrap(), Duration::from_secs(1))
    }

    /// A server grants a lock again to the connection that holds it, and knows only hashes of names.
    #[test]
    fn two_claims_never_share_a_key_and_a_hash_collision_is_an_error() {
        let claims = SessionClaims::<()>::default();
        let (first, second, other) = (claim("a"), claim("a"), claim("b"));
        let key = Key::of("", &first.name);
        assert!(matches!(claims.begin_claim(&first, key, None), Ok(BeginClaim::Send(None))));
        assert!(matches!(claims.begin_claim(&second, key, None), Ok(BeginClaim::HeldByOther)));
        let error = claims.begin_claim(&other, key, None).err().expect("its key belongs to another name");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"a\""), "{error}");
        claims.forget(first.id);
        assert!(
            matches!(claims.begin_claim(&second, key, None), Ok(BeginClaim::Send(None))),
            "as soon as no other claim may hold it"
        );
        claims.update(second.id, |entry| entry.phase = ClaimPhase::Idle);
        assert!(matches!(claims.begin_claim(&other, key, None), Ok(BeginClaim::Send(None))));
    }

    /// A waiter may hold the lock while its release is under way, and does not after it. The holder holds all
    /// the time.
    #[test]
    fn forgetting_a_waiter_does_not_free_the_lock_of_the_holder() {
        let claims = SessionClaims::<()>::default();
        let [holder, waiter, third] = ["a"; 3].map(claim);
        let key = Key::of("", &holder.name);
        assert!(matches!(claims.begin_claim(&holder, key, None), Ok(BeginClaim::Send(None))));
        claims.update(holder.id, |entry| entry.phase = ClaimPhase::Held(None));
        assert!(matches!(claims.begin_claim(&waiter, key, None), Ok(BeginClaim::HeldByOther)));
        claims.update(waiter.id, |entry| entry.phase = ClaimPhase::Unconfirmed);
        claims.forget(waiter.id);
        assert!(matches!(claims.begin_claim(&third, key, None), Ok(BeginClaim::HeldByOther)));
    }

    /// A wait on a blocked runtime may end long after another one has begun.
    #[tokio::test]
    async fn the_end_of_a_wait_does_not_change_the_next_wait() {
        let (claims, waiter) = (SessionClaims::<()>::default(), claim("a"));
        let (key, here) = (Key::of("", &waiter.name), runtime::Handle::current().id());
        assert!(matches!(claims.begin_claim(&waiter, key, None), Ok(BeginClaim::Send(None))));
        assert_eq!(claims.begin_wait(waiter.id, here), None, "it may hold");
        claims.update(waiter.id, |entry| entry.phase = ClaimPhase::Idle);
        let first = claims.begin_wait(waiter.id, here).expect("it waits");
        assert_eq!(claims.begin_wait(waiter.id, here), None, "it waits already");
        claims.update(waiter.id, |entry| entry.phase = ClaimPhase::Idle);
        let second = claims.begin_wait(waiter.id, here).expect("it waits again");
        assert!(!claims.update_wait(waiter.id, first, |entry| entry.phase = ClaimPhase::WaitEnded(None)));
        assert!(claims.get(waiter.id).is_some_and(|entry| entry.phase.is(second)));
        assert!(claims.update_wait(waiter.id, second, |entry| entry.phase = ClaimPhase::Held(None)));
        assert!(!claims.update_wait(waiter.id, second, |_| panic!("it is over")));
    }
}
