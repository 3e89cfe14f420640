//! `scheme=single`: one ephemeral node per lock. The client that created it holds the lock, and the others
//! watch it.
//!
//! Not fair: when the node is deleted, the fastest client creates the next.

use super::errors::{self, protocol_error};
use super::node_data::NodeData;
use super::node_watch::NodeWatch;
use super::paths;
use super::shared::{Shared, claim_state};
use super::tracked_claim::{ClaimNode, TrackedClaim};
use super::wire::{CreateMode, NodeRequest, Reply, Session, WireError};
use crate::engine::{Busy, Claim, Mode, Released, Verdict, Wake};
use crate::{Effect, Error, ErrorKind, Result};

/// How often the node may change hands while a claim reads it, before the claim fails.
const MAX_ATTEMPTS: u32 = 100;

impl Shared {
    pub(super) async fn claim_single(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive {
            let message = "zookeeper: scheme=single supports only exclusive locks; scheme=sequential also supports readers and writers";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let path = self.path(&paths::flat_path_of(&claim.name));
        for _ in 0..MAX_ATTEMPTS {
            let session = self.session().await?;
            if let Some(verdict) = self.create_or_read(&session, claim, &path).await? {
                return Ok(verdict);
            }
        }
        let message = "zookeeper: the node of this lock changed whenever it was read";
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    }

    /// Creates the node, and reads and watches the existing one, in one write. So no change between this and
    /// `wait` is missed, and a holder learns of a deletion before its release is answered. `None`: the claim
    /// is repeated.
    async fn create_or_read(&self, session: &Session, claim: &Claim, path: &str) -> Result<Option<Verdict>> {
        let (data, mode) = (NodeData::encode_claim(claim), CreateMode::Ephemeral);
        let create = NodeRequest::Create { path: path.to_owned(), data, mode };
        let read = NodeRequest::GetData { path: path.to_owned(), watch: true };
        let known = self.claims.get(claim.id);
        let is_first = known.is_none();
        if known.is_none_or(|known| known.session != session.id()) {
            self.claims.insert(claim.id, session.id());
        }
        let watcher = self.claims.watch_own(claim.id);
        let [created, read] = session.send([(create.clone(), None), (read, Some(watcher))]).await;
        match created {
            Ok(_) => {}
            Err(wire_error) if wire_error == WireError::NODE_EXISTS => {}
            Err(wire_error @ WireError::Unanswered(_)) => {
                return Err(errors::request_failed(&wire_error, &create, &self.options));
            }
            Err(wire_error) => {
                // An earlier attempt may have created the node.
                let effect = if is_first { Effect::None } else { Effect::Unknown };
                if is_first {
                    self.claims.forget(claim.id);
                }
                return match wire_error == WireError::NO_NODE && !self.options.chroot.is_empty() {
                    true => self.create_parents(session, &self.options.chroot).await.map(|()| None),
                    false => {
                        Err(errors::request_failed(&wire_error, &create, &self.options).with_effect(effect))
                    }
                };
            }
        }
        let (data, stat) = match read {
            Ok(Reply::Node { data, stat }) => (data, stat),
            Err(wire_error) if wire_error == WireError::NO_NODE => return Ok(None),
            Err(wire_error) => return Err(errors::claim_failed(&wire_error, &self.options)),
            Ok(_) => return Err(protocol_error().with_effect(Effect::Unknown)),
        };
        let is_own = NodeData::parse(&data).is_some_and(|data| data.id == claim.id);
        if is_own && stat.ephemeral_owner == session.id() {
            let node = ClaimNode { path: path.to_owned(), czxid: stat.czxid };
            self.claims.update(claim.id, |claim| claim.node = Some(node));
            return self.grant(session, claim.id, stat.czxid).map(|grant| Some(Verdict::Granted(grant)));
        }
        if is_own {
            // Left by an expired session. The server will delete the node; until then it blocks all claims.
            let delete = NodeRequest::Delete { path: path.to_owned() };
            self.send(session, delete, &[WireError::NO_NODE]).await?;
            return Ok(None);
        }
        if stat.ephemeral_owner == 0 {
            self.claims.forget(claim.id);
            let message = format!(
                "zookeeper: the node {path:?} is not ephemeral, so it is not a lock of scheme=single"
            );
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        if claim.wait_lease.is_zero() {
            self.claims.forget(claim.id);
        }
        let mut busy = Busy::new(session.timeout() / 3);
        let mut holder = claim_state(None, &data, &stat);
        holder.token = u64::try_from(stat.czxid).ok();
        busy.holder = Some(holder);
        Ok(Some(Verdict::Busy(busy)))
    }

    /// Waits for an event of the node, which the claim watches already.
    pub(super) async fn wait_single(&self, claim: &Claim) -> Result<Wake> {
        if let Some(known) = self.claims.get(claim.id) {
            known.notify.notified().await;
        }
        Ok(Wake::Recheck)
    }

    /// Deletes the node if it is this claim's. A claim with an active watch and without an event holds the
    /// lock. In all other cases the node is read first. A delete without a reply is never repeated unseen:
    /// the node may be another claim's, and has nothing to compare with.
    pub(super) async fn release_single(&self, claim: &Claim) -> Result<Released> {
        let session = self.session().await?;
        let path = self.path(&paths::flat_path_of(&claim.name));
        let known = self.claims.get(claim.id);
        let certain = known.filter(|known| certainly_exists(known, session.id()));
        self.claims.update(claim.id, |claim| claim.own_watch = NodeWatch::default());
        let delete = NodeRequest::Delete { path: path.clone() };
        let deleted = match certain {
            // The event of a revocation may have arrived meanwhile: then the node may be the next holder's.
            Some(known) => {
                let watch = known.own_watch;
                match session.send_if(move || watch.is_active(), delete.clone()).await {
                    Err(WireError::NotSent(_)) => None,
                    reply => Some(self.expect(reply, &delete, &[WireError::NO_NODE])?),
                }
            }
            None => None,
        };
        let deleted = match deleted {
            Some(deleted) => deleted,
            None if self.exists(&session, claim, &path).await? => {
                self.send(&session, delete, &[WireError::NO_NODE]).await?
            }
            None => None,
        };
        self.claims.forget(claim.id);
        Ok(if deleted.is_some() { Released::Freed } else { Released::NotHeld })
    }

    /// Reads whether the node is this claim's, after a `sync`.
    async fn exists(&self, session: &Session, claim: &Claim, path: &str) -> Result<bool> {
        let sync = NodeRequest::Sync { path: path.to_owned() };
        let read = NodeRequest::GetData { path: path.to_owned(), watch: false };
        let [_, reply] = session.send([(sync, None), (read.clone(), None)]).await;
        match reply {
            Ok(Reply::Node { data, .. }) => {
                Ok(NodeData::parse(&data).is_some_and(|data| data.id == claim.id))
            }
            Err(wire_error) if wire_error == WireError::NO_NODE => Ok(false),
            Err(wire_error) => Err(errors::request_failed(&wire_error, &read, &self.options)),
            Ok(_) => Err(protocol_error()),
        }
    }
}

/// Whether the claim's node exists, as far as its watch has reported. A revoked claim does not certainly
/// exist: its operator may have deleted its node, and the next holder created another one under the same
/// name.
fn certainly_exists(claim: &TrackedClaim, session: i64) -> bool {
    let is_untouched = claim.loss.is_none() && !claim.is_rewritten && !claim.is_gone;
    claim.session == session && claim.is_held && claim.own_watch.is_active() && is_untouched
}
