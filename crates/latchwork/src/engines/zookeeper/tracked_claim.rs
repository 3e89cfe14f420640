//! The state of one claim of this client.

use std::sync::Arc;

use tokio::sync::Notify;

use super::fast_path::ParentWatch;
use super::node_kind::NodeKind;
use super::node_watch::NodeWatch;
use crate::Loss;
use crate::engine::Busy;

/// A claim that was sent and not yet released.
#[derive(Clone, Debug)]
pub(super) struct TrackedClaim {
    /// The session in which the claim was sent.
    pub(super) session: i64,
    /// `None`: the reply to the request that creates the node is missing.
    pub(super) node: Option<ClaimNode>,
    pub(super) is_held: bool,
    /// The watch of the claim's own node, or of the one node of `scheme=single`.
    pub(super) own_watch: NodeWatch,
    /// The state of a claim that waits.
    pub(super) wait: Option<WaitState>,
    pub(super) loss: Option<Loss>,
    /// The node was written again, which only an operator does.
    pub(super) is_rewritten: bool,
    /// The node was deleted. A node of the same path belongs to another claim.
    pub(super) is_gone: bool,
    /// The watch of the lock's own node, if it was active when the claim's node was created.
    pub(super) parent_watch: Option<ParentWatch>,
    /// Notified when the claim should be repeated.
    pub(super) notify: Arc<Notify>,
}

impl TrackedClaim {
    pub(super) fn new(session: i64, notify: Arc<Notify>) -> Self {
        Self {
            session,
            node: None,
            is_held: false,
            own_watch: NodeWatch::default(),
            wait: None,
            loss: None,
            is_rewritten: false,
            is_gone: false,
            parent_watch: None,
            notify,
        }
    }

    /// Notes that the claim's node is gone. If the node was written before, an operator has revoked the
    /// claim.
    pub(super) fn set_gone(&mut self) {
        let why = if self.is_rewritten { Loss::Revoked } else { Loss::Removed };
        (self.is_gone, self.loss) = (true, self.loss.or(Some(why)));
    }
}

/// The state of a claim that waits in the queue.
#[derive(Clone, Debug)]
pub(super) struct WaitState {
    /// The last result of the claim.
    pub(super) busy: Busy,
    /// The path of the first contender.
    pub(super) first: String,
    /// The paths of the nearest blockers. Several, if the claim waits for any of them to leave.
    pub(super) nearest: Vec<String>,
    /// The watches of these.
    pub(super) watches: Vec<NodeWatch>,
}

impl WaitState {
    /// Whether the server reports it when one of the nearest blockers leaves.
    pub(super) fn is_watched(&self) -> bool {
        self.watches.iter().all(NodeWatch::is_active)
    }
}

/// The node of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimNode {
    pub(super) path: String,
    pub(super) czxid: i64,
}

impl ClaimNode {
    /// The path of the lock's own node.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// The node's sequence number among the children of the lock's node.
    pub(super) fn sequence(&self) -> Option<i32> {
        NodeKind::parse(self.name()).map(|(_, sequence)| sequence)
    }

    /// The node's name below the lock's own node.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}
