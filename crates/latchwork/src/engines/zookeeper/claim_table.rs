//! The claims of this client, and what the server has reported of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::node_watch::NodeWatch;
use super::tracked_claim::TrackedClaim;
use super::wire::{NodeEvent, Watcher};
use crate::Loss;
use crate::engine::ClaimId;
use crate::engines::lost_hints::LossHints;
use crate::poison::lock_ignoring_poison;

/// Every claim that was sent and not yet released.
#[derive(Default)]
pub(super) struct ClaimTable {
    claims: Mutex<HashMap<ClaimId, TrackedClaim>>,
    pub(super) loss_hints: LossHints,
}

impl ClaimTable {
    /// Adds a claim before its request is sent in this session. Afterwards its node may exist, whether a
    /// reply came or not.
    pub(super) fn insert(&self, id: ClaimId, session: i64) {
        let claim = TrackedClaim::new(session, self.notify_of(id));
        lock_ignoring_poison(&self.claims).insert(id, claim);
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<TrackedClaim> {
        lock_ignoring_poison(&self.claims).get(&id).cloned()
    }

    pub(super) fn update(&self, id: ClaimId, update: impl FnOnce(&mut TrackedClaim)) {
        if let Some(claim) = lock_ignoring_poison(&self.claims).get_mut(&id) {
            update(claim);
        }
    }

    /// Removes a claim that has nothing left on the server.
    pub(super) fn forget(&self, id: ClaimId) {
        lock_ignoring_poison(&self.claims).remove(&id);
    }

    fn notify_of(&self, id: ClaimId) -> Arc<Notify> {
        lock_ignoring_poison(&self.claims).get(&id).map(|claim| claim.notify.clone()).unwrap_or_default()
    }

    /// A watcher for the node that decides about this claim: its own, or the one node of `scheme=single`.
    pub(super) fn watch_own(self: &Arc<Self>, id: ClaimId) -> Watcher {
        let claims = Arc::downgrade(self);
        let on_event = move |event| {
            if let Some(claims) = claims.upgrade() {
                claims.on_event(id, event);
            }
        };
        let (watch, watcher) = NodeWatch::begin(self.notify_of(id), on_event);
        self.update(id, |claim| claim.own_watch = watch);
        watcher
    }

    /// A watcher for one of the nearest blockers of this claim.
    pub(super) fn watch_blocker(&self, id: ClaimId, index: usize) -> Watcher {
        let (watch, watcher) = NodeWatch::begin(self.notify_of(id), |_| {});
        self.update(id, |claim| {
            if let Some(slot) = claim.wait.as_mut().and_then(|wait| wait.watches.get_mut(index)) {
                *slot = watch;
            }
        });
        watcher
    }

    fn on_event(&self, id: ClaimId, event: NodeEvent) {
        let mut claims = lock_ignoring_poison(&self.claims);
        let Some(claim) = claims.get_mut(&id) else { return };
        match event {
            NodeEvent::Deleted if claim.is_held => claim.set_gone(),
            // The event has no reason. If the node is gone at the next renewal, the claim was revoked.
            NodeEvent::Changed if claim.is_held => claim.is_rewritten = true,
            _ => {}
        }
        let is_held = claim.is_held;
        drop(claims);
        if is_held {
            self.loss_hints.tell(id);
        }
    }

    /// Marks all claims of a session as lost: the server has ended it.
    pub(super) fn session_expired(&self, session: i64) {
        let mut claims = lock_ignoring_poison(&self.claims);
        for (id, claim) in claims.iter_mut().filter(|(_, claim)| claim.session == session) {
            claim.loss.get_or_insert(Loss::SessionEnded);
            claim.notify.notify_one();
            if claim.is_held {
                self.loss_hints.tell(*id);
            }
        }
    }
}
