//! Waits until the position of a queued claim may have changed.

use super::mark;
use crate::Result;
use crate::engine::{Busy, Claim, Wake};
use crate::engines::zookeeper::errors;
use crate::engines::zookeeper::shared::Shared;
use crate::engines::zookeeper::tracked_claim::TrackedClaim;
use crate::engines::zookeeper::wire::{NodeRequest, WireError};

impl Shared {
    /// Watches the nearest blockers and the claim's own node, in one write, unless they are watched already.
    /// A node that was deleted before is missing in the reply, so no deletion is missed. A deletion means
    /// only that the claim must read its position again.
    pub(in super::super) async fn wait_in_queue(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        let Some(TrackedClaim {
            node: Some(node),
            notify,
            session: owner,
            loss: None,
            own_watch,
            wait: Some(wait),
            ..
        }) = self.claims.get(claim.id)
        else {
            return Ok(Wake::Recheck);
        };
        let session = self.session().await?;
        if owner != session.id() || mark(&wait.nearest) != busy.mark {
            return Ok(Wake::Recheck);
        }
        let read = |path: String| NodeRequest::GetData { path, watch: true };
        let mut requests = Vec::new();
        for (index, (path, watch)) in wait.nearest.into_iter().zip(&wait.watches).enumerate() {
            if !watch.is_active() {
                requests.push((read(path), Some(self.claims.watch_blocker(claim.id, index))));
            }
        }
        if !own_watch.is_active() {
            requests.push((read(node.path), Some(self.claims.watch_own(claim.id))));
        }
        let sent: Vec<_> = requests.iter().map(|(request, _)| request.clone()).collect();
        for (reply, request) in session.send_all(requests).await.iter().zip(sent) {
            match reply {
                Ok(_) => {}
                Err(wire_error) if *wire_error == WireError::NO_NODE => return Ok(Wake::Recheck),
                Err(wire_error) => return Err(errors::request_failed(wire_error, &request, &self.options)),
            }
        }
        notify.notified().await;
        Ok(Wake::Recheck)
    }
}
