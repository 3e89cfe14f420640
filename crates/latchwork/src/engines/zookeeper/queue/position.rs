//! The position of a claim's node in the queue of its lock.

use super::effect_unknown;
use crate::Result;
use crate::engine::{Busy, ClaimState};
use crate::engines::zookeeper::contender_node::{self, ContenderNode};
use crate::engines::zookeeper::errors::{self, protocol_error};
use crate::engines::zookeeper::node_kind::NodeKind;
use crate::engines::zookeeper::shared::{Shared, claim_state};
use crate::engines::zookeeper::tracked_claim::{ClaimNode, WaitState};
use crate::engines::zookeeper::wire::{NodeRequest, Reply, Session, WireError};

/// The position of a claim's node in the queue.
pub(super) enum NodePosition {
    Holds,
    Waits(QueueBlockers),
    /// The claim's node does not exist.
    Gone,
    /// A contender left meanwhile: the queue has to be listed again.
    Changed,
}

/// The contenders that a claim waits for.
pub(super) struct QueueBlockers {
    pub(super) first: ContenderNode,
    /// The claim's turn can come when one of these has left.
    pub(super) watched: Vec<ContenderNode>,
    pub(super) holder: Option<ClaimState>,
    /// The number of contenders before the claim.
    pub(super) position: u32,
}

impl Shared {
    /// Computes the position from a listing. Reads the first and the nearest blocker, to name the holder, and
    /// nodes of an unknown kind: a node that is not ephemeral is not a claim.
    pub(super) async fn read_position(
        &self,
        session: &Session,
        parent: &str,
        node: &ClaimNode,
        children: &[String],
    ) -> Result<NodePosition> {
        let all = contender_node::in_order(children);
        let Some(own) = all.iter().find(|contender| contender.name == node.name()) else {
            return Ok(NodePosition::Gone);
        };
        let mut blockers = contender_node::blockers(&all, own);
        if blockers.is_empty() {
            return Ok(NodePosition::Holds);
        }
        let last = blockers.len() - 1;
        let is_read = |(at, contender): (usize, &ContenderNode)| {
            at == 0 || at == last || contender.kind == NodeKind::Unknown
        };
        let read: Vec<_> = blockers
            .iter()
            .enumerate()
            .filter(|indexed| is_read(*indexed))
            .map(|(_, contender)| contender.clone())
            .collect();
        let request = |contender: &ContenderNode| NodeRequest::GetData {
            path: format!("{parent}/{}", contender.name),
            watch: false,
        };
        let requests = read.iter().map(|contender| (request(contender), None)).collect();
        let replies = session.send_all(requests).await;
        let (mut holder, mut has_left, mut not_claims) = (None, false, Vec::new());
        for (contender, reply) in read.iter().zip(replies) {
            match reply {
                Ok(Reply::Node { stat, .. }) if stat.ephemeral_owner == 0 => {
                    not_claims.push(contender.name.clone());
                    blockers.retain(|other| other != contender);
                }
                Ok(Reply::Node { data, stat }) if blockers.first() == Some(contender) => {
                    let mut state = claim_state(contender.id(), &data, &stat);
                    state.token = u64::try_from(stat.czxid).ok();
                    holder = Some(state);
                }
                Ok(Reply::Node { .. }) => {}
                // A node that is gone does not block. In a queue that moves fast this is the rule: to list
                // the children again at once would only meet the next change.
                Err(wire_error) if wire_error == WireError::NO_NODE => {
                    has_left = true;
                    blockers.retain(|other| other != contender);
                }
                // Another program may keep its nodes private. They block all the same.
                Err(wire_error) if wire_error == WireError::NO_AUTH => {}
                Err(wire_error) => {
                    return Err(errors::request_failed(&wire_error, &request(contender), &self.options));
                }
                Ok(_) => return Err(protocol_error()),
            }
        }
        if own.is_permit() && has_left {
            return Ok(NodePosition::Changed); // Other permits may be the nearest now.
        }
        if own.is_permit() && !not_claims.is_empty() {
            let claims: Vec<_> =
                children.iter().filter(|child| !not_claims.contains(child)).cloned().collect();
            return Box::pin(self.read_position(session, parent, node, &claims)).await;
        }
        if blockers.is_empty() {
            // The lock is not necessarily free because a blocker has left: the own node may be gone as well.
            return Ok(if has_left { NodePosition::Changed } else { NodePosition::Holds });
        }
        let is_before = |contender: &&ContenderNode| {
            contender.is_before(own) && (contender.kind != NodeKind::Unknown || blockers.contains(contender))
        };
        let position = all.iter().filter(is_before).count() as u32;
        let watched = contender_node::to_watch(&blockers, own).to_vec();
        let first = blockers.swap_remove(0);
        Ok(NodePosition::Waits(QueueBlockers { first, watched, holder, position }))
    }

    /// The result for a waiting claim whose position has not changed. `None`: the claim must list the
    /// children.
    ///
    /// The watches are active, so the server would have reported a change. To detect an event that the server
    /// failed to send, the claim reads the nearest blockers and its own node; and the first node, to name the
    /// holder. It does not list the children: listings of a thousand waiters would cost more than all claims
    /// and releases.
    pub(super) async fn recheck(
        &self,
        session: &Session,
        node: &ClaimNode,
        wait: &WaitState,
    ) -> Result<Option<Busy>> {
        let read = |path: &String| NodeRequest::GetData { path: path.clone(), watch: false };
        let others = wait.nearest.iter().chain([&node.path]);
        let requests: Vec<_> = [&wait.first].into_iter().chain(others).map(read).collect();
        let sent = requests.iter().map(|request| (request.clone(), None)).collect();
        let mut replies = session.send_all(sent).await.into_iter().zip(&requests);
        let first = replies.next().ok_or_else(protocol_error)?.0;
        let mut busy = wait.busy.clone();
        // The number of contenders that left meanwhile is not known.
        busy.position = None;
        if first.is_err() {
            busy.holder = None;
        }
        for (reply, request) in replies {
            match reply {
                Ok(_) => {}
                // Another program may keep its nodes private. They block all the same.
                Err(wire_error) if wire_error == WireError::NO_AUTH => {}
                Err(wire_error) if wire_error == WireError::NO_NODE => return Ok(None),
                Err(wire_error) => {
                    let error = errors::request_failed(&wire_error, request, &self.options);
                    return Err(effect_unknown(error));
                }
            }
        }
        Ok(Some(busy))
    }
}
