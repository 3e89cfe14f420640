//! What this client knows of its own claims, and what the server said of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use super::fast_path::Standing;
use super::node::Kind;
use super::wire::{Event, Listen, Watcher};
use crate::Loss;
use crate::engine::{Busy, ClaimId};
use crate::engines::lost_hints::LossHints;
use crate::poison::lock_ignoring_poison;

/// Every claim that was sent and not yet given back.
#[derive(Default)]
pub(super) struct Claims {
    entries: Mutex<HashMap<ClaimId, Entry>>,
    pub(super) loss_hints: LossHints,
}

/// One claim.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The session it was sent in.
    pub(super) session: i64,
    /// Its node; `None` if the answer that would have named it is missing.
    pub(super) node: Option<Node>,
    pub(super) is_held: bool,
    /// Of its own node, or of the one that it wants.
    pub(super) own: Watch,
    /// Where it stands, if it waits.
    pub(super) place: Option<Place>,
    pub(super) lost: Option<Loss>,
    /// Its node was written again, which only an operator does.
    pub(super) is_rewritten: bool,
    /// Its node was removed: a node of the same path is another claim's.
    pub(super) is_gone: bool,
    /// What stood over the lock's own node when its node was made.
    pub(super) watch: Option<Standing>,
    /// Rung when asking again makes sense.
    pub(super) bell: Arc<Notify>,
}

impl Entry {
    /// Its node is gone. If it was written before, an operator took the lock away.
    pub(super) fn gone(&mut self) {
        let why = if self.is_rewritten { Loss::Revoked } else { Loss::Removed };
        (self.is_gone, self.lost) = (true, self.lost.or(Some(why)));
    }
}

/// Where one stands who waits.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// What it was told.
    pub(super) busy: Busy,
    /// The node of the first in the queue.
    pub(super) first: String,
    /// The node just ahead; or several, if it waits for any of them to leave.
    pub(super) nearest: Vec<String>,
    /// Of each of these.
    pub(super) watches: Vec<Watch>,
}

impl Place {
    /// Whether the server will tell when one of them leaves.
    pub(super) fn is_watched(&self) -> bool {
        self.watches.iter().all(Watch::stands)
    }
}

/// Whether the server will tell what happens to a node. It stands as long as what listens for that: until the server has
/// told, the request has failed, or the connection is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch(Weak<Listening>);

/// Lives in what listens for a node.
#[derive(Debug)]
struct Listening {
    bell: Arc<Notify>,
}

/// Listens for a node's changes, as long as its [`Watch`] is kept.
struct Listener<F> {
    listening: Arc<Listening>,
    heard: F,
}

impl<F: FnOnce(Event) + Send> Listen for Listener<F> {
    fn tell(self: Box<Self>, event: Event) {
        (self.heard)(event);
    }

    fn is_wanted(&self) -> bool {
        Arc::weak_count(&self.listening) > 0
    }
}

/// However it ends: who found the watch standing while its request was under way relies on being told of its failure.
impl Drop for Listening {
    fn drop(&mut self) {
        self.bell.notify_one();
    }
}

impl Watch {
    /// One that stands from now on, also while its request is under way: what the server says right behind the answer must
    /// not be missed. `bell` is rung when it stands no longer.
    fn begin(bell: Arc<Notify>, heard: impl FnOnce(Event) + Send + 'static) -> (Self, Watcher) {
        let listening = Arc::new(Listening { bell });
        let watch = Self(Arc::downgrade(&listening));
        (watch, Box::new(Listener { listening, heard }))
    }

    pub(super) fn stands(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// The node of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) czxid: i64,
}

impl Node {
    /// The path of the lock's own node.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// Its number among the nodes of the lock.
    pub(super) fn number(&self) -> Option<i32> {
        Kind::of(self.name()).map(|(_, number)| number)
    }

    /// Its name below the lock's own node.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Claims {
    /// It will be asked for in this session. Noted before it is sent: afterwards it may be there, answered or not.
    pub(super) fn asked(&self, id: ClaimId, session: i64) {
        let bell = self.bell(id);
        let (own, watch, place) = (Watch::default(), None, None);
        let (is_held, is_rewritten, is_gone) = (false, false, false);
        let (node, lost) = (None, None);
        let entry = Entry { session, node, is_held, own, place, lost, is_rewritten, is_gone, watch, bell };
        lock_ignoring_poison(&self.entries).insert(id, entry);
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<Entry> {
        lock_ignoring_poison(&self.entries).get(&id).cloned()
    }

    pub(super) fn update(&self, id: ClaimId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = lock_ignoring_poison(&self.entries).get_mut(&id) {
            change(entry);
        }
    }

    /// Nothing of it is left on the server.
    pub(super) fn forget(&self, id: ClaimId) {
        lock_ignoring_poison(&self.entries).remove(&id);
    }

    /// What rings when asking again for this claim makes sense.
    pub(super) fn bell(&self, id: ClaimId) -> Arc<Notify> {
        lock_ignoring_poison(&self.entries).get(&id).map(|entry| entry.bell.clone()).unwrap_or_default()
    }

    /// Listens for what happens to the node that decides over this claim: its own, or the one that it wants.
    pub(super) fn watcher(self: &Arc<Self>, id: ClaimId) -> Watcher {
        let claims = Arc::downgrade(self);
        let heard = move |event| {
            if let Some(claims) = claims.upgrade() {
                claims.heard(id, event);
            }
        };
        let (own, watcher) = Watch::begin(self.bell(id), heard);
        self.update(id, |entry| entry.own = own);
        watcher
    }

    /// Listens for the end of one of the nodes ahead.
    pub(super) fn watcher_ahead(&self, id: ClaimId, at: usize) -> Watcher {
        let (watch, watcher) = Watch::begin(self.bell(id), |_| {});
        self.update(id, |entry| {
            if let Some(place) = entry.place.as_mut().and_then(|place| place.watches.get_mut(at)) {
                *place = watch;
            }
        });
        watcher
    }

    fn heard(&self, id: ClaimId, event: Event) {
        let mut entries = lock_ignoring_poison(&self.entries);
        let Some(entry) = entries.get_mut(&id) else { return };
        match event {
            Event::Deleted if entry.is_held => entry.gone(),
            // The event says no more. If the node is gone by the next look, this was why.
            Event::Changed if entry.is_held => entry.is_rewritten = true,
            _ => {}
        }
        let is_held = entry.is_held;
        drop(entries);
        if is_held {
            self.loss_hints.tell(id);
        }
    }

    /// The server ended a session: everything that belonged to it is lost.
    pub(super) fn session_ended(&self, session: i64) {
        for (id, entry) in
            lock_ignoring_poison(&self.entries).iter_mut().filter(|(_, entry)| entry.session == session)
        {
            entry.lost.get_or_insert(Loss::SessionEnded);
            entry.bell.notify_one();
            if entry.is_held {
                self.loss_hints.tell(*id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn rings(bell: &Notify) -> bool {
        tokio::time::timeout(Duration::from_millis(50), bell.notified()).await.is_ok()
    }

    #[tokio::test]
    async fn a_watch_that_ends_rings_also_if_its_request_failed() {
        let bell = Arc::new(Notify::new());
        let (watch, watcher) = Watch::begin(bell.clone(), |_| {});
        assert!(watch.stands() && !rings(&bell).await);
        assert!(watcher.is_wanted());
        watcher.tell(Event::Deleted);
        assert!(!watch.stands() && rings(&bell).await, "told by the server");

        let (watch, watcher) = Watch::begin(bell.clone(), |_| {});
        drop(watcher);
        assert!(!watch.stands() && rings(&bell).await, "the server never watched");

        let (watch, watcher) = Watch::begin(bell.clone(), |_| {});
        drop(watch);
        assert!(!watcher.is_wanted(), "its claim is forgotten");
    }
}
