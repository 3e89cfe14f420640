//! Renewal, healing of masters that lost a claim, and what a majority sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::node::{Ask, Node};
use super::round::Round;
use super::votes::{Outcome, Votes};
use super::{RELEASE_LIMIT, Redlock, Replies, Script, Standing, value};
use crate::engine::{Claim, Engine, Filter, LockState, Renewal, Valid};
use crate::engines::redis::millis;
use crate::poison::lock_ignoring_poison;
use crate::{Error, LockName, Loss, Result};

impl Redlock {
    pub(super) async fn renew_all(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let standings: Vec<_> = claims.iter().map(|claim| self.standing(claim)).collect();
        let values = claims.iter().zip(&standings).map(|(claim, standing)| value(claim.id, standing.attempt));
        let asked = Arc::new((claims.to_vec(), values.collect::<Vec<_>>()));
        let shortest = claims.iter().map(|claim| claim.ttl).min().unwrap_or_default();
        let mut round =
            Round::begin(self.everybody(), self.clock().now().after(patience(shortest)), |node| {
                let asked = asked.clone();
                async move { node.alone().renew_values(&asked.0, &asked.1).await }
            });
        let (mut votes, mut heard, mut answered) = (Vec::new(), Replies::default(), 0);
        votes.resize_with(claims.len(), Votes::default);
        while let Some((master, answer)) = round.next().await {
            match answer {
                Ok(renewals) => {
                    answered += 1;
                    votes.iter_mut().zip(renewals).for_each(|(votes, renewal)| note(votes, master, renewal));
                }
                Err(error) => heard.failed(&error),
            }
        }
        let mut answers = Vec::with_capacity(claims.len());
        for ((claim, standing), votes) in claims.iter().zip(&standings).zip(votes) {
            let answer = self.judge(claim, &votes, || self.no_majority(answered, &heard));
            if matches!(answer, Ok(Renewal::Kept(_))) {
                self.heal(claim, standing, votes.lacking);
            }
            answers.push(answer);
        }
        answers
    }

    fn standing(&self, claim: &Claim) -> Standing {
        lock_ignoring_poison(&self.shared.claims).get(&claim.id).copied().unwrap_or_default()
    }

    fn judge(&self, claim: &Claim, votes: &Votes, no_majority: impl Fn() -> Error) -> Result<Renewal> {
        match votes.judge(self.shared.nodes.len()) {
            Outcome::Kept => Ok(Renewal::Kept(Valid::For(claim.ttl))),
            Outcome::Removed => Ok(Renewal::Lost(Loss::Removed)),
            Outcome::Revoked => Ok(Renewal::Lost(Loss::Revoked)),
            Outcome::Unknown => Err(no_majority()),
        }
    }

    /// Puts the key back where it is missing. It counts from the next renewal on, and is taken away again if the claim was given
    /// back meanwhile.
    fn heal(&self, claim: &Arc<Claim>, standing: &Standing, lacking: Vec<usize>) {
        if lacking.is_empty() || standing.token == 0 {
            return;
        }
        let [value, member] = self.written(claim, standing.attempt);
        let token = format!("{:016}", standing.token).into_bytes();
        let args = vec![value.clone(), member, token, millis(claim.ttl).to_string().into_bytes()];
        let ask = Ask { script: Script::Heal, name: claim.name.clone(), args, gate: None };
        let mut healing = self.ask(lacking.iter().copied(), patience(claim.ttl), ask);
        let (engine, claim) = (self.clone(), claim.clone());
        tokio::spawn(async move {
            while healing.next().await.is_some() {}
            if !lock_ignoring_poison(&engine.shared.claims).contains_key(&claim.id) {
                let ask = Ask {
                    script: Script::Release,
                    name: claim.name.clone(),
                    args: vec![value, Vec::new()],
                    gate: None,
                };
                let mut undoing = engine.ask(lacking.into_iter(), patience(claim.ttl), ask);
                while undoing.next().await.is_some() {}
            }
        });
    }

    /// The locks that a majority has, with the holders that a majority names.
    pub(super) async fn majority_of(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let inspect = |node: Node| {
            let filter = filter.clone();
            async move { node.alone().inspect(&filter).await }
        };
        let mut round = Round::begin(self.everybody(), self.clock().now().after(RELEASE_LIMIT), inspect);
        let (mut answered, mut heard, mut seen) =
            (0, Replies::default(), BTreeMap::<LockName, Vec<_>>::new());
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(locks) => {
                    answered += 1;
                    locks
                        .into_iter()
                        .for_each(|lock| seen.entry(lock.name).or_default().extend(lock.holders));
                }
                Err(error) => heard.failed(&error),
            }
        }
        if answered < self.quorum() {
            return Err(self.no_majority(answered, &heard));
        }
        let with_majority = |(name, holders): (LockName, Vec<_>)| {
            let holders = Replies { holders, ..Replies::default() };
            let mut state = LockState::new(name);
            state.holders.extend(holders.named_by(self.quorum()));
            (!state.holders.is_empty()).then_some(state)
        };
        Ok(seen.into_iter().filter_map(with_majority).collect())
    }
}

fn note(votes: &mut Votes, master: usize, renewal: Renewal) {
    match renewal {
        Renewal::Kept(_) => votes.kept += 1,
        Renewal::Lost(Loss::Revoked) => votes.revoked += 1,
        Renewal::Lost(_) => votes.lacking.push(master),
    }
}

/// How long masters may take to renew: longer than to claim, because nothing is gained by giving up.
fn patience(ttl: Duration) -> Duration {
    (ttl / 20).clamp(Duration::from_millis(20), Duration::from_millis(500))
}
