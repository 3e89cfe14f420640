//! Claims a lock: creates the claim's node, or reads its position again.

use super::position::{NodePosition, QueueBlockers};
use super::{effect_unknown, mark};
use crate::engine::{Busy, Claim, Verdict};
use crate::engines::zookeeper::contender_node::{self, ContenderNode};
use crate::engines::zookeeper::errors::{self, protocol_error};
use crate::engines::zookeeper::fast_path::{ClaimPlan, ParentWatch};
use crate::engines::zookeeper::node_data::NodeData;
use crate::engines::zookeeper::node_watch::NodeWatch;
use crate::engines::zookeeper::shared::Shared;
use crate::engines::zookeeper::tracked_claim::{ClaimNode, TrackedClaim, WaitState};
use crate::engines::zookeeper::wire::{CreateMode, NodeRequest, Reply, ReplyResult, Session, WireError};
use crate::engines::zookeeper::{node_kind, paths};
use crate::{Effect, Error, ErrorKind, Result};

/// How often the queue may change while a claim reads it, before the claim fails.
const MAX_ATTEMPTS: u32 = 100;

impl Shared {
    pub(in super::super) async fn claim_in_queue(&self, claim: &Claim) -> Result<Verdict> {
        let parent = self.path(&paths::path_of(&claim.name));
        let name = node_kind::name_of(claim.id, claim.mode).ok_or_else(protocol_error)?;
        for _ in 0..MAX_ATTEMPTS {
            let session = self.session().await?;
            let known = self.claims.get(claim.id);
            if let Some(TrackedClaim {
                node: Some(node), session: owner, own_watch, wait: Some(wait), ..
            }) = &known
                && *owner == session.id()
                && own_watch.is_active()
                && wait.is_watched()
                && let Some(busy) = self.recheck(&session, node, wait).await?
            {
                return Ok(Verdict::Busy(busy));
            }
            let listed = match known {
                None => self.enqueue(&session, claim, &parent, &name).await?,
                Some(TrackedClaim { node: Some(node), session: owner, .. }) if owner == session.id() => {
                    Some((node, self.list(&session, &parent).await.map_err(effect_unknown)?))
                }
                Some(_) => self.find_node(&session, claim, &parent).await.map_err(effect_unknown)?,
            };
            let Some((node, children)) = listed else { continue };
            let was_accepted =
                self.claims.get(claim.id).is_some_and(|known| known.is_held || known.wait.is_some());
            let first_permit = contender_node::first_permit(&children, node.name());
            if let Err(rejected) = claim.mode.same_number(first_permit)
                && !was_accepted
            {
                self.withdraw(&session, claim, &node).await?;
                return Err(rejected);
            }
            let position = self.read_position(&session, &parent, &node, &children).await;
            match position.map_err(effect_unknown)? {
                NodePosition::Holds => {
                    return self.grant(&session, claim.id, node.czxid).map(Verdict::Granted);
                }
                NodePosition::Gone => self.claims.forget(claim.id),
                NodePosition::Changed => {}
                NodePosition::Waits(blockers) => {
                    if claim.wait_lease.is_zero() {
                        self.withdraw(&session, claim, &node).await?;
                    }
                    return Ok(Verdict::Busy(self.start_wait(&session, claim, &parent, blockers)));
                }
            }
        }
        let message = "zookeeper: the queue of this lock changed whenever it was read";
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    }

    /// Creates the claim's node and lists the children, in one write: a free lock costs one round trip. The
    /// fast path leaves out the listing. `None`: the claim is repeated.
    async fn enqueue(
        &self,
        session: &Session,
        claim: &Claim,
        parent: &str,
        name: &str,
    ) -> Result<Option<(ClaimNode, Vec<String>)>> {
        let create = NodeRequest::Create {
            path: format!("{parent}/{name}"),
            data: NodeData::encode_claim(claim),
            mode: CreateMode::EphemeralSequential,
        };
        let list = || NodeRequest::GetChildren { path: parent.to_owned() };
        let plan = self.fast_path.plan(parent, claim.mode);
        let mut requests = vec![(create.clone(), None)];
        if !matches!(plan, ClaimPlan::ExpectAlone(..)) {
            requests.push((list(), None));
        }
        if let ClaimPlan::ListAndWatch(watch) = &plan {
            let read = NodeRequest::GetData { path: parent.to_owned(), watch: true };
            requests.push((read, Some(watch.watcher())));
        }
        self.claims.insert(claim.id, session.id());
        let mut replies = session.send_all(requests).await.into_iter();
        let Some(created) = replies.next() else { return Err(effect_unknown(protocol_error())) };
        let node = match created {
            Ok(Reply::Created { path, stat }) => ClaimNode { path, czxid: stat.czxid },
            // The repeated claim finds the node by its name, if it exists.
            Err(wire_error @ WireError::Unanswered(_)) => {
                return Err(errors::request_failed(&wire_error, &create, &self.options));
            }
            Ok(_) => return Err(effect_unknown(protocol_error())),
            Err(wire_error) => {
                self.claims.forget(claim.id);
                return match wire_error == WireError::NO_NODE {
                    true => self.create_parents(session, parent).await.map(|()| None),
                    false => Err(errors::request_failed(&wire_error, &create, &self.options)),
                };
            }
        };
        self.claims.update(claim.id, |claim| claim.node = Some(node.clone()));
        let (listed, parent_read) = (replies.next(), replies.next());
        let (parent_watch, is_alone) = self.parent_watch(plan, &node, parent_read);
        self.claims.update(claim.id, |claim| claim.parent_watch = parent_watch);
        let listed = match listed {
            Some(listed) => listed,
            None if is_alone => Ok(Reply::Children(vec![node.name().to_owned()])),
            None => {
                self.fast_path.contended(parent);
                let [listed] = session.send([(list(), None)]).await;
                listed
            }
        };
        match listed {
            Ok(Reply::Children(children)) => Ok(Some((node, children))),
            Ok(_) => Err(effect_unknown(protocol_error())),
            Err(wire_error) => Err(errors::claim_failed(&wire_error, &self.options)),
        }
    }

    /// The watch of the lock's own node that was active when the claim's node was created, and whether it
    /// shows that the lock has no other contender.
    fn parent_watch(
        &self,
        plan: ClaimPlan,
        node: &ClaimNode,
        parent_read: Option<ReplyResult>,
    ) -> (Option<ParentWatch>, bool) {
        let (watch, is_alone) = match plan {
            ClaimPlan::List(watch) => (watch, false),
            ClaimPlan::ExpectAlone(number, watch) => (Some(watch), node.sequence() == Some(number)),
            ClaimPlan::ListAndWatch(watch) => match parent_read {
                // The watched node is older than the claim's node, so it is the parent of the claim's node.
                Some(Ok(Reply::Node { stat, .. })) if stat.czxid < node.czxid => {
                    self.fast_path.watched(node.parent(), &watch);
                    (Some(watch), false)
                }
                _ => (None, false),
            },
        };
        let watch = watch.filter(ParentWatch::is_active);
        let is_alone = is_alone && watch.is_some();
        (watch, is_alone)
    }

    /// Searches for the node of a claim whose creation was not answered, or that belongs to an earlier
    /// session. The node of another session may not have been deleted by the server yet; a client that takes
    /// it for its own would hold a lock that another client gets. So such a node is deleted. `None`: the
    /// claim has no node.
    async fn find_node(
        &self,
        session: &Session,
        claim: &Claim,
        parent: &str,
    ) -> Result<Option<(ClaimNode, Vec<String>)>> {
        let children = self.sync_and_list(session, parent).await?;
        let prefix = node_kind::prefix_of(claim.id);
        let mut found = None;
        for child in children.iter().filter(|child| child.starts_with(&prefix)) {
            let path = format!("{parent}/{child}");
            let read = NodeRequest::GetData { path: path.clone(), watch: false };
            let reply = self.send(session, read, &[WireError::NO_NODE]).await?;
            let Some(Reply::Node { stat, .. }) = reply else { continue };
            match stat.ephemeral_owner == session.id() && found.is_none() {
                true => found = Some(ClaimNode { path, czxid: stat.czxid }),
                false => {
                    self.send(session, NodeRequest::Delete { path }, &[WireError::NO_NODE]).await?;
                }
            }
        }
        match found {
            None => self.claims.forget(claim.id),
            Some(ref node) => {
                self.claims.insert(claim.id, session.id());
                self.claims.update(claim.id, |claim| claim.node = Some(node.clone()));
            }
        }
        Ok(found.map(|node| (node, children)))
    }

    /// Stores what the claim waits for, and returns it. Watches of the same blockers stay active.
    fn start_wait(&self, session: &Session, claim: &Claim, parent: &str, blockers: QueueBlockers) -> Busy {
        let QueueBlockers { first, watched, holder, position } = blockers;
        let mut busy = Busy::new(session.timeout() / 3);
        busy.holder = holder;
        busy.position = (!claim.wait_lease.is_zero()).then_some(position);
        let path = |contender: &ContenderNode| format!("{parent}/{}", contender.name);
        let (first, nearest) = (path(&first), watched.iter().map(path).collect::<Vec<_>>());
        busy.mark = mark(&nearest);
        self.claims.update(claim.id, |claim| {
            let former = claim.wait.take().filter(|former| former.nearest == nearest);
            let watches = former.map(|former| former.watches);
            let watches = watches.unwrap_or_else(|| vec![NodeWatch::default(); nearest.len()]);
            claim.wait = Some(WaitState { busy: busy.clone(), first, nearest, watches });
        });
        busy
    }

    /// Deletes the node of a try that found the lock held.
    async fn withdraw(&self, session: &Session, claim: &Claim, node: &ClaimNode) -> Result<()> {
        let delete = NodeRequest::Delete { path: node.path.clone() };
        self.send(session, delete, &[WireError::NO_NODE]).await.map_err(effect_unknown)?;
        self.claims.forget(claim.id);
        Ok(())
    }
}
