//! Releases a claim by deleting its node.

use crate::Result;
use crate::engine::{Claim, Mode, Released};
use crate::engines::zookeeper::shared::Shared;
use crate::engines::zookeeper::tracked_claim::TrackedClaim;
use crate::engines::zookeeper::wire::{NodeRequest, WireError};
use crate::engines::zookeeper::{node_kind, paths};

impl Shared {
    /// Deletes the claim's node: by its path, or, if the path is not known, every node with the claim's id.
    /// No other claim's node has that id, so a release may be sent at any time and any number of times. It
    /// also deletes the node of an expired session that the server has not deleted yet.
    pub(in super::super) async fn release_in_queue(&self, claim: &Claim) -> Result<Released> {
        let session = self.session().await?;
        let known = self.claims.get(claim.id);
        let paths = match &known {
            Some(TrackedClaim { node: Some(node), .. }) => vec![node.path.clone()],
            _ => {
                let parent = self.path(&paths::path_of(&claim.name));
                let prefix = node_kind::prefix_of(claim.id);
                let children = self.sync_and_list(&session, &parent).await?;
                let own = children.iter().filter(|child| child.starts_with(&prefix));
                own.map(|child| format!("{parent}/{child}")).collect()
            }
        };
        let mut released = Released::NotHeld;
        for path in paths {
            if self.send(&session, NodeRequest::Delete { path }, &[WireError::NO_NODE]).await?.is_some() {
                released = Released::Freed;
            }
        }
        if let Some(TrackedClaim { node: Some(node), is_held: true, parent_watch, .. }) = &known
            && let (Released::Freed, Mode::Exclusive | Mode::Write, Some(number)) =
                (released, claim.mode, node.sequence())
        {
            self.fast_path.released(node.parent(), number, parent_watch.as_ref());
        }
        self.claims.forget(claim.id);
        Ok(released)
    }
}
