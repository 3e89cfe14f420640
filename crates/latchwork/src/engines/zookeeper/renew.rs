//! Renews held claims: one heartbeat for the session, and a watch for each claim's node.

use std::sync::Arc;

use super::errors::{self, protocol_error};
use super::node_data::NodeData;
use super::shared::{Shared, certain_until};
use super::tracked_claim::{ClaimNode, TrackedClaim};
use super::wire::{NodeRequest, Reply, Session, WireError};
use crate::clock::Clock;
use crate::engine::{Claim, Renewal, Valid};
use crate::{Loss, Result};

impl Shared {
    pub(super) async fn renew_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let session = self.last_session();
        let mut renewals: Vec<_> = claims.iter().map(|claim| self.known_loss(claim, &session)).collect();
        let unwatched: Vec<_> = claims
            .iter()
            .enumerate()
            .filter(|(at, _)| renewals[*at].is_none())
            .filter_map(|(at, claim)| {
                let known = self.claims.get(claim.id)?;
                known.node.filter(|_| !known.own_watch.is_active()).map(|node| (at, node))
            })
            .collect();
        for (at, renewal) in self.watch_new_holders(&session, claims, &unwatched).await {
            renewals[at] = renewal;
        }
        if renewals.iter().all(Option::is_some) {
            return renewals.into_iter().flatten().collect();
        }
        let heartbeat = self.heartbeat(&session).await;
        let until = Valid::Until(certain_until(&session));
        let kept = |renewal: Option<Result<Renewal>>| match (renewal, &heartbeat) {
            (Some(renewal), _) => renewal,
            (None, Ok(())) => Ok(Renewal::Kept(until)),
            (None, Err(error)) => Err(error.again()),
        };
        renewals.into_iter().map(kept).collect()
    }

    /// The loss of a claim that is known already. An unknown claim was released. A claim of another session
    /// stays lost.
    fn known_loss(&self, claim: &Claim, session: &Session) -> Option<Result<Renewal>> {
        let Some(known) = self.claims.get(claim.id) else { return Some(Ok(Renewal::Lost(Loss::Removed))) };
        let has_expired = known.session != session.id() || session.is_expired();
        let loss = known.loss.or(has_expired.then_some(Loss::SessionEnded));
        loss.map(|loss| Ok(Renewal::Lost(loss)))
    }

    /// Reads and watches nodes without an active watch: at the first renewal of a holder, and after a
    /// reconnection. From then on the server reports a deletion, and one heartbeat serves all claims.
    async fn watch_new_holders(
        &self,
        session: &Session,
        claims: &[Arc<Claim>],
        unwatched: &[(usize, ClaimNode)],
    ) -> Vec<(usize, Option<Result<Renewal>>)> {
        if unwatched.is_empty() || !session.is_connected() {
            return Vec::new();
        }
        let request = |node: &ClaimNode| NodeRequest::GetData { path: node.path.clone(), watch: true };
        let requests = unwatched
            .iter()
            .map(|(at, node)| (request(node), Some(self.claims.watch_own(claims[*at].id))))
            .collect();
        let replies = session.send_all(requests).await;
        let renewals = unwatched.iter().zip(replies).map(|((at, node), reply)| {
            let id = claims[*at].id;
            let gone = || {
                self.claims.update(id, TrackedClaim::set_gone);
                self.claims.get(id).and_then(|known| known.loss).unwrap_or(Loss::Removed)
            };
            let loss = match reply {
                Ok(Reply::Node { stat, .. }) if stat.czxid != node.czxid => Some(gone()),
                Ok(Reply::Node { data, .. }) => {
                    NodeData::parse(&data).is_some_and(|data| data.is_revoked).then_some(Loss::Revoked)
                }
                Err(wire_error) if wire_error == WireError::NO_NODE => Some(gone()),
                Err(wire_error) => {
                    let error = errors::request_failed(&wire_error, &request(node), &self.options);
                    return (*at, Some(Err(error)));
                }
                Ok(_) => return (*at, Some(Err(protocol_error()))),
            };
            self.claims.update(id, |claim| claim.loss = claim.loss.or(loss));
            (*at, loss.map(|loss| Ok(Renewal::Lost(loss))))
        });
        renewals.collect()
    }

    /// Sends a heartbeat, unless the leader has answered a recent request.
    async fn heartbeat(&self, session: &Session) -> Result<()> {
        let age = Clock::boottime().now().since(session.acknowledged());
        let is_fresh = age < session.timeout() / 6;
        match session.is_connected() && (is_fresh || session.heartbeat().await) {
            true => Ok(()),
            false => Err(errors::unreachable("the connection is lost".into(), &self.options)),
        }
    }
}
