//! What this client knows of its own claims.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime;
use tokio::sync::Notify;

use super::Key;
use super::line::{Facts, Line};
use crate::engine::{Busy, Claim, ClaimId};
use crate::engines::lost_hints::LossHints;
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, LockName, Result};

/// Every claim that was sent and not yet given back.
pub(super) struct Claims<C> {
    entries: Mutex<Entries<C>>,
    waits: AtomicU64,
    pub(super) loss_hints: LossHints,
}

struct Entries<C> {
    by_id: HashMap<ClaimId, Entry<C>, BuildIdentityHasher>,
    /// Who has a lock, or may have it. A connection is given its own locks again, so this is what keeps two claims of one client
    /// apart (C7).
    by_key: BTreeSet<(Key, ClaimId)>,
}

impl<C> Entries<C> {
    /// Notes whether a claim has the lock, or may have it.
    fn mark(&mut self, key: Key, id: ClaimId, may_hold: bool) {
        match may_hold {
            true => self.by_key.insert((key, id)),
            false => self.by_key.remove(&(key, id)),
        };
    }

    /// Another claim that has this lock, or may have it. On a connection that is closed it cannot be given again: then the
    /// server decides.
    fn rival(&self, key: Key, id: ClaimId) -> Option<&Entry<C>> {
        let is_closed = |entry: &Entry<C>| entry.line.as_ref().is_some_and(|line| line.facts.is_closed());
        let all = self.by_key.range((key, ClaimId::from_bytes([0; 16]))..);
        let others = all.take_while(|(other, _)| *other == key).filter(|(_, other)| *other != id);
        others.filter_map(|(_, other)| self.by_id.get(other)).find(|entry| !is_closed(entry))
    }
}

/// One claim.
pub(super) struct Entry<C> {
    pub(super) name: LockName,
    pub(super) key: Key,
    pub(super) state: State,
    /// The connection that it was last sent on.
    pub(super) line: Option<Arc<Line<C>>>,
    /// What it was last told.
    pub(super) busy: Option<Busy>,
    /// Rung when its waiting in the server is over. Most never wait.
    pub(super) bell: Option<Arc<Notify>>,
}

impl<C> Clone for Entry<C> {
    fn clone(&self) -> Self {
        let (name, key, state) = (self.name.clone(), self.key, self.state.clone());
        let (line, busy, bell) = (self.line.clone(), self.busy.clone(), self.bell.clone());
        Self { name, key, state, line, busy, bell }
    }
}

/// Where a claim stands.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Sent, and not answered: it may hold.
    Unsure,
    /// Told that another holds.
    Idle,
    /// Waits in the server.
    Waits(Wait),
    /// It did, in vain; why, if not because the slice was over.
    Waited(Option<Arc<Error>>),
    Held(Option<u64>),
}

/// One wait in the server. Another of the same claim may have taken its place when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    number: u64,
    /// Where it is waited.
    pub(super) runtime: runtime::Id,
}

impl State {
    pub(super) fn is(&self, wait: Wait) -> bool {
        matches!(self, Self::Waits(current) if *current == wait)
    }

    fn may_hold(&self) -> bool {
        matches!(self, Self::Unsure | Self::Held(_))
    }
}

/// What a claim finds.
pub(super) enum Found<C> {
    /// It holds already.
    Held(Arc<Line<C>>, Option<u64>),
    /// Another claim of this client holds, or may.
    Taken,
    /// It waits in the server.
    Waits(Option<Busy>),
    /// It must be asked for, on the connection that was named.
    AskOn(Arc<Line<C>>),
    /// It must be asked for. What an earlier request, whose answer is missing, was sent on.
    Query(Option<Arc<Line<C>>>),
}

impl<C> Default for Claims<C> {
    fn default() -> Self {
        let entries = Mutex::new(Entries { by_id: HashMap::default(), by_key: BTreeSet::new() });
        Self { entries, waits: AtomicU64::new(0), loss_hints: LossHints::default() }
    }
}

impl<C> Claims<C> {
    /// Notes that a claim will be asked for, before it is: afterwards it may hold, answered or not. On `line`, if there is one and
    /// nothing has to be done before.
    ///
    /// # Errors
    /// If another name has the same key.
    pub(super) fn enter(&self, claim: &Claim, key: Key, line: Option<Arc<Line<C>>>) -> Result<Found<C>> {
        let mut entries = lock_ignoring_poison(&self.entries);
        let rival = entries.rival(key, claim.id);
        if let Some(other) = rival.filter(|other| other.name != claim.name) {
            let message = format!("has the same 64-bit key as {:?}; rename one of them", other.name.as_str());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let is_taken = rival.is_some();
        let entry = entries.by_id.entry(claim.id).or_insert_with(|| Entry {
            name: claim.name.clone(),
            key,
            state: State::Idle,
            line: None,
            busy: None,
            bell: None,
        });
        match &entry.state {
            State::Held(token) => {
                if let Some(line) = &entry.line {
                    return Ok(Found::Held(line.clone(), *token));
                }
            }
            State::Waits(_) => return Ok(Found::Waits(entry.busy.clone())),
            _ if is_taken => return Ok(Found::Taken),
            _ => {}
        }
        let former = matches!(entry.state, State::Unsure).then(|| entry.line.take()).flatten();
        entry.state = State::Unsure;
        let found = match line {
            Some(line) if former.is_none() => {
                entry.line = Some(line.clone());
                Found::AskOn(line)
            }
            _ => Found::Query(former),
        };
        entries.mark(key, claim.id, true);
        Ok(found)
    }

    /// Notes that a claim begins to wait in the server, on this runtime. `None` if it does not any more.
    pub(super) fn begin_wait(&self, id: ClaimId, runtime: runtime::Id) -> Option<Wait> {
        let wait = Wait { number: self.waits.fetch_add(1, Ordering::Relaxed), runtime };
        let mut begun = None;
        self.update(id, |entry| {
            if matches!(entry.state, State::Idle) {
                (entry.state, begun) = (State::Waits(wait), Some(wait));
                entry.bell.get_or_insert_default();
            }
        });
        begun
    }

    /// Changes what is known of a claim for as long as it still waits so. Whether it does.
    pub(super) fn update_wait(&self, id: ClaimId, wait: Wait, change: impl FnOnce(&mut Entry<C>)) -> bool {
        let mut still_waits = false;
        self.update(id, |entry| {
            still_waits = entry.state.is(wait);
            if still_waits {
                change(entry);
            }
        });
        still_waits
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<Entry<C>> {
        lock_ignoring_poison(&self.entries).by_id.get(&id).cloned()
    }

    /// Changes what is known. Whether there is such a claim.
    pub(super) fn update(&self, id: ClaimId, change: impl FnOnce(&mut Entry<C>)) -> bool {
        let mut entries = lock_ignoring_poison(&self.entries);
        let Some(entry) = entries.by_id.get_mut(&id) else { return false };
        let before = entry.state.may_hold();
        change(entry);
        let (key, may_hold) = (entry.key, entry.state.may_hold());
        if may_hold != before {
            entries.mark(key, id, may_hold);
        }
        true
    }

    /// Notes on which connection it is about to be sent. False if another came in the meantime that has this lock, or may have
    /// it: on one connection the server would give it to both.
    pub(super) fn is_sent_on(&self, id: ClaimId, key: Key, line: &Arc<Line<C>>) -> bool {
        let mut entries = lock_ignoring_poison(&self.entries);
        if entries.rival(key, id).is_some() {
            return false;
        }
        entries.by_id.get_mut(&id).into_iter().for_each(|entry| entry.line = Some(line.clone()));
        true
    }

    /// Nothing of it is left on the server.
    pub(super) fn forget(&self, id: ClaimId) {
        let mut entries = lock_ignoring_poison(&self.entries);
        if let Some(entry) = entries.by_id.remove(&id) {
            entries.mark(entry.key, id, false);
        }
    }

    /// The same for one that was told that another holds; what may hold is kept until it is released.
    pub(super) fn forget_idle(&self, id: ClaimId) {
        let is_idle = |entry: Entry<C>| matches!(entry.state, State::Idle);
        if self.get(id).is_some_and(is_idle) {
            self.forget(id);
        }
    }

    /// A connection ended: whoever holds on it is told, whoever waits on it asks again.
    pub(super) fn line_ended(&self, facts: &Arc<Facts>) {
        let entries = lock_ignoring_poison(&self.entries);
        let is_on =
            |entry: &Entry<C>| entry.line.as_ref().is_some_and(|line| Arc::ptr_eq(&line.facts, facts));
        let ended: Vec<_> = entries
            .by_id
            .iter()
            .filter(|(_, entry)| is_on(entry) && matches!(entry.state, State::Held(_)))
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

    /// A connection is given its own locks again, and a server knows hashes only.
    #[test]
    fn two_claims_never_share_a_key_and_two_names_with_one_are_noticed() {
        let claims = Claims::<()>::default();
        let (first, second, other) = (claim("a"), claim("a"), claim("b"));
        let key = Key::of("", &first.name);
        assert!(matches!(claims.enter(&first, key, None), Ok(Found::Query(None))));
        assert!(matches!(claims.enter(&second, key, None), Ok(Found::Taken)));
        let error = claims.enter(&other, key, None).err().expect("its key is another's");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("\"a\""), "{error}");
        claims.forget(first.id);
        assert!(
            matches!(claims.enter(&second, key, None), Ok(Found::Query(None))),
            "as soon as nobody may have it"
        );
        claims.update(second.id, |entry| entry.state = State::Idle);
        assert!(matches!(claims.enter(&other, key, None), Ok(Found::Query(None))));
    }

    /// It may hold for as long as its release is under way, and then it does not; the other did all the time.
    #[test]
    fn who_leaves_does_not_open_the_lock_of_who_holds() {
        let claims = Claims::<()>::default();
        let [holder, waiter, third] = ["a"; 3].map(claim);
        let key = Key::of("", &holder.name);
        assert!(matches!(claims.enter(&holder, key, None), Ok(Found::Query(None))));
        claims.update(holder.id, |entry| entry.state = State::Held(None));
        assert!(matches!(claims.enter(&waiter, key, None), Ok(Found::Taken)));
        claims.update(waiter.id, |entry| entry.state = State::Unsure);
        claims.forget(waiter.id);
        assert!(matches!(claims.enter(&third, key, None), Ok(Found::Taken)));
    }

    /// Left behind on a runtime that stands still, it may come to its end long after another has begun.
    #[tokio::test]
    async fn a_wait_that_is_over_says_nothing_of_the_next() {
        let (claims, waiter) = (Claims::<()>::default(), claim("a"));
        let (key, here) = (Key::of("", &waiter.name), runtime::Handle::current().id());
        assert!(matches!(claims.enter(&waiter, key, None), Ok(Found::Query(None))));
        assert_eq!(claims.begin_wait(waiter.id, here), None, "it may hold");
        claims.update(waiter.id, |entry| entry.state = State::Idle);
        let first = claims.begin_wait(waiter.id, here).expect("it waits");
        assert_eq!(claims.begin_wait(waiter.id, here), None, "it waits already");
        claims.update(waiter.id, |entry| entry.state = State::Idle);
        let second = claims.begin_wait(waiter.id, here).expect("it waits again");
        assert!(!claims.update_wait(waiter.id, first, |entry| entry.state = State::Waited(None)));
        assert!(claims.get(waiter.id).is_some_and(|entry| entry.state.is(second)));
        assert!(claims.update_wait(waiter.id, second, |entry| entry.state = State::Held(None)));
        assert!(!claims.update_wait(waiter.id, second, |_| panic!("it is over")));
    }
}
