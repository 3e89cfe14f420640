//! Renewal, and healing of masters that lost a claim.

use std::sync::Arc;
use std::time::Duration;

use super::super::millis;
use super::super::scripts::Script;
use super::attempts::ClaimAttempts;
use super::master::MasterRequest;
use super::replies::Replies;
use super::round::Round;
use super::votes::{VoteResult, Votes};
use super::{Redlock, record};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Error, Loss, Result};

impl Redlock {
    pub(super) async fn renew_on_majority(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let attempts: Vec<_> =
            claims.iter().map(|claim| self.shared.attempts.get(claim.id).unwrap_or_default()).collect();
        let values: Vec<_> =
            claims.iter().zip(&attempts).map(|(claim, attempts)| attempts.value(claim.id)).collect();
        let sent = Arc::new((claims.to_vec(), values));
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or_default();
        let deadline = self.deadline(renewal_limit(shortest));
        let mut round = Round::begin(self.topology().all(), deadline, |master| {
            let sent = sent.clone();
            async move { master.engine().renew_values(&sent.0, &sent.1).await }
        });
        let (mut votes, mut replies, mut answered) = (Vec::new(), Replies::default(), 0);
        votes.resize_with(claims.len(), Votes::default);
        while let Some((master, answer)) = round.next().await {
            match answer {
                Ok(renewals) => {
                    answered += 1;
                    votes.iter_mut().zip(renewals).for_each(|(votes, renewal)| note(votes, master, renewal));
                }
                Err(error) => replies.failed(&error),
            }
        }
        let mut answers = Vec::with_capacity(claims.len());
        for ((claim, attempts), votes) in claims.iter().zip(&attempts).zip(votes) {
            let answer = self.judge(claim, &votes, || replies.no_majority(answered, self.topology().len()));
            if matches!(answer, Ok(Renewal::Kept(_))) {
                self.heal(claim, *attempts, votes.lacking);
            }
            answers.push(answer);
        }
        answers
    }

    fn judge(&self, claim: &Claim, votes: &Votes, no_majority: impl Fn() -> Error) -> Result<Renewal> {
        match votes.judge(self.topology().len()) {
            VoteResult::Kept => Ok(Renewal::Kept(Valid::For(claim.ttl))),
            VoteResult::Removed => Ok(Renewal::Lost(Loss::Removed)),
            VoteResult::Revoked => Ok(Renewal::Lost(Loss::Revoked)),
            VoteResult::Unknown => Err(no_majority()),
        }
    }

    /// Restores the key where it is missing. These masters count from the next renewal on. If the claim is
    /// released meanwhile, the key is deleted again.
    fn heal(&self, claim: &Arc<Claim>, attempts: ClaimAttempts, lacking: Vec<usize>) {
        if lacking.is_empty() || attempts.token == 0 {
            return;
        }
        let (value, member) = (attempts.value(claim.id), self.member(claim));
        let token = record::token_digits(attempts.token);
        let args = vec![value.clone(), member, token, millis(claim.ttl).to_string().into_bytes()];
        let request = MasterRequest { script: Script::Heal, name: claim.name.clone(), args, gate: None };
        let mut healing = self.send(lacking.iter().copied(), renewal_limit(claim.ttl), request);
        let (engine, claim) = (self.clone(), claim.clone());
        tokio::spawn(async move {
            while healing.next().await.is_some() {}
            if engine.shared.attempts.get(claim.id).is_none() {
                let request = MasterRequest {
                    script: Script::Release,
                    name: claim.name.clone(),
                    args: vec![value, Vec::new()],
                    gate: None,
                };
                let mut undoing = engine.send(lacking.into_iter(), renewal_limit(claim.ttl), request);
                while undoing.next().await.is_some() {}
            }
        });
    }
}

fn note(votes: &mut Votes, master: usize, renewal: Renewal) {
    match renewal {
        Renewal::Kept(_) => votes.kept += 1,
        Renewal::Lost(Loss::Revoked) => votes.revoked += 1,
        Renewal::Lost(_) => votes.lacking.push(master),
    }
}

/// The time limit for the masters' replies to a renewal: longer than for a claim, because giving up early
/// gains nothing.
fn renewal_limit(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_millis(20), Duration::from_millis(500))
}
