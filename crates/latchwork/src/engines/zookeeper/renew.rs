//! Renewal: the session is kept alive as a whole, and each claim's node is watched.

use std::sync::Arc;

use super::claims::{Entry, Node};
use super::data::Data;
use super::failure;
use super::shared::{Shared, certain_until, protocol_error};
use super::wire::{Reply, Request, Session, WireError};
use crate::clock::Clock;
use crate::engine::{Claim, Renewal, Valid};
use crate::{Loss, Result};

impl Shared {
    pub(super) async fn renew_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let session = self.last_session();
        let mut answers: Vec<_> = claims.iter().map(|claim| self.known_loss(claim, &session)).collect();
        let unwatched: Vec<_> = claims
            .iter()
            .enumerate()
            .filter(|(at, _)| answers[*at].is_none())
            .filter_map(|(at, claim)| {
                let entry = self.claims.get(claim.id)?;
                entry.node.filter(|_| !entry.own.stands()).map(|node| (at, node))
            })
            .collect();
        for (at, answer) in self.watch(&session, claims, &unwatched).await {
            answers[at] = answer;
        }
        if answers.iter().all(Option::is_some) {
            return answers.into_iter().flatten().collect();
        }
        let beaten = self.beat(&session).await;
        let until = Valid::Until(certain_until(&session));
        let kept = |answer: Option<Result<Renewal>>| match (answer, &beaten) {
            (Some(answer), _) => answer,
            (None, Ok(())) => Ok(Renewal::Kept(until)),
            (None, Err(error)) => Err(error.again()),
        };
        answers.into_iter().map(kept).collect()
    }

    /// What was told of a claim already. What nobody knows of was given back, or is another session's: it stays lost.
    fn known_loss(&self, claim: &Claim, session: &Session) -> Option<Result<Renewal>> {
        let Some(entry) = self.claims.get(claim.id) else { return Some(Ok(Renewal::Lost(Loss::Removed))) };
        let is_of_another = entry.session != session.id() || session.is_over();
        let loss = entry.lost.or(is_of_another.then_some(Loss::SessionEnded));
        loss.map(|loss| Ok(Renewal::Lost(loss)))
    }

    /// Reads and watches nodes that nobody watches, once for each hold (and after a reconnection): from then on the
    /// server tells of a removal by itself, and one sign of life serves all claims.
    async fn watch(
        &self,
        session: &Session,
        claims: &[Arc<Claim>],
        unwatched: &[(usize, Node)],
    ) -> Vec<(usize, Option<Result<Renewal>>)> {
        if unwatched.is_empty() || !session.is_connected() {
            return Vec::new();
        }
        let request = |node: &Node| Request::Read { path: node.path.clone(), watch: true };
        let watching =
            unwatched.iter().map(|(at, node)| (request(node), Some(self.claims.watcher(claims[*at].id))));
        let answers = session.ask_all(watching.collect()).await;
        let judged = unwatched.iter().zip(answers).map(|((at, node), answer)| {
            let id = claims[*at].id;
            let why_gone = || {
                self.claims.update(id, Entry::gone);
                self.claims.get(id).and_then(|entry| entry.lost).unwrap_or(Loss::Removed)
            };
            let loss = match answer {
                Ok(Reply::Node { stat, .. }) if stat.czxid != node.czxid => Some(why_gone()),
                Ok(Reply::Node { data, .. }) => {
                    Data::read(&data).is_some_and(|data| data.is_revoked).then_some(Loss::Revoked)
                }
                Err(wire_error) if wire_error == WireError::NO_NODE => Some(why_gone()),
                Err(wire_error) => {
                    return (*at, Some(Err(failure::failed(&wire_error, &request(node), &self.options))));
                }
                Ok(_) => return (*at, Some(Err(protocol_error()))),
            };
            self.claims.update(id, |entry| entry.lost = entry.lost.or(loss));
            (*at, loss.map(|loss| Ok(Renewal::Lost(loss))))
        });
        judged.collect()
    }

    /// One sign of life for the session, unless one was acknowledged a moment ago.
    async fn beat(&self, session: &Session) -> Result<()> {
        let age = Clock::boottime().now().since(session.acknowledged());
        let is_fresh = age < session.timeout() / 6;
        match session.is_connected() && (is_fresh || session.beat().await) {
            true => Ok(()),
            false => Err(failure::unreachable("the connection is lost", &self.options)),
        }
    }
}
