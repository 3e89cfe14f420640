//! Releases: a majority of masters must have answered.

use super::super::scripts::Script;
use super::master::MasterRequest;
use super::replies::Replies;
use super::{MAJORITY_LIMIT, Redlock, Reply, record};
use crate::engine::{Claim, Released};
use crate::{Effect, Result};

impl Redlock {
    pub(super) async fn release_on_majority(&self, claim: &Claim) -> Result<Released> {
        let attempts = self.shared.attempts.remove(claim.id);
        if attempts.is_some_and(|attempts| !attempts.may_have_keys) {
            // Every attempt was undone. Another request would only wait for masters that are gone.
            return Ok(Released::NotHeld);
        }
        let value = attempts.unwrap_or_default().value(claim.id);
        let args = vec![value, record::encode_id(claim.id).to_vec()];
        let request = MasterRequest { script: Script::Release, name: claim.name.clone(), args, gate: None };
        let (masters, quorum) = (self.topology().len(), self.topology().quorum());
        let mut round = self.send(0..masters, self.shared.options.claim_limit(claim.ttl), request);
        let (mut freed, mut answered, mut replies) = (0, 0, Replies::default());
        let mut is_extended = false;
        loop {
            match round.next().await {
                Some((_, Ok(reply))) => {
                    answered += 1;
                    freed += usize::from(reply == Reply::Int(1));
                }
                Some((_, Err(error))) => replies.failed(&error),
                None if answered < quorum && !is_extended => {
                    is_extended = true;
                    round.extend(self.deadline(MAJORITY_LIMIT));
                }
                None => break,
            }
        }
        match (answered >= quorum, freed) {
            (false, _) => Err(replies.no_majority(answered, masters).with_effect(Effect::Unknown)),
            (true, 0) => Ok(Released::NotHeld),
            (true, _) => Ok(Released::Freed),
        }
    }
}
