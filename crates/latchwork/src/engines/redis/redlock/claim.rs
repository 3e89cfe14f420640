//! Claims: a majority of masters must set the key, and agree on the token.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::millis;
use super::super::scripts::Script;
use super::attempts::ClaimAttempts;
use super::master::MasterRequest;
use super::replies::Replies;
use super::round::Round;
use super::send_gate::ClosesGate;
use super::tally::{ClaimVote, Decision, Tally};
use super::topology::quarantined;
use super::{Redlock, Reply, record};
use crate::clock;
use crate::engine::{Busy, Claim, Engine as _, Grant, Lifetime, Mode, Valid, Verdict};
use crate::token::next_engine_token;
use crate::{Effect, Error, ErrorKind, Result};

/// The longest pause after the first attempt. It doubles with each attempt, up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(250);
/// How often masters are raised to each other's tokens before the claim fails.
const MAX_RAISES: u32 = 4;

impl Redlock {
    pub(super) async fn claim_on_majority(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease {
            let message = "redlock supports only exclusive locks with a lease: with permits, several clients could each get a part of \
                           the masters, and none a majority";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let verdict = match self.topology().out_of_quarantine() {
            Ok(available) => self.send_claim(claim, &available).await,
            Err(left) => Ok(quarantined(left)),
        };
        // Nothing is left of the claim, and no release may follow (C11).
        match &verdict {
            Ok(Verdict::Busy(_)) if claim.wait_lease.is_zero() => drop(self.shared.attempts.remove(claim.id)),
            Err(error) if error.effect() == Effect::None => self.shared.attempts.forget_undone(claim.id),
            _ => {}
        }
        verdict
    }

    async fn send_claim(&self, claim: &Claim, available: &[usize]) -> Result<Verdict> {
        let attempt = self.shared.attempts.begin(claim.id);
        let time_limit = self.shared.options.claim_limit(claim.ttl);
        let (value, member) = (attempt.value(claim.id), self.member(claim));
        let proposal = record::token_digits(self.proposal());
        let args = vec![value.clone(), member.clone(), millis(claim.ttl).to_string().into_bytes(), proposal];
        let (mut tally, mut replies) = (self.tally_of(available), Replies::default());
        let gate = ClosesGate(Arc::default());
        let request = MasterRequest {
            script: Script::Claim,
            name: claim.name.clone(),
            args,
            gate: Some(gate.0.clone()),
        };
        let mut round = self.send(available.iter().copied(), time_limit, request);
        count(&mut round, &mut tally, |master, answer| replies.claim(master, answer)).await;
        let mut decision = tally.decide();
        for _ in 0..MAX_RAISES {
            let Decision::Raise(token) = decision else { break };
            tally = self.raise(claim, &tally, time_limit, [&value, &member], token).await;
            decision = tally.decide();
        }
        if let Decision::Granted(token) = decision {
            return Ok(self.granted(claim, token));
        }
        if !self.is_answered(&tally) {
            // The remaining replies tell whether any master acted.
            while let Some((master, answer)) = round.next().await {
                tally.note(master, replies.claim(master, answer));
            }
        }
        drop(gate);
        // A master that did nothing has nothing to undo, and the undo would wait for it if it is gone.
        let acted = available.iter().copied().filter(|master| !replies.without_effect.contains(master));
        let is_undone = self.undo(claim, attempt, time_limit, acted.collect()).await;
        self.failed(claim, &tally, replies, is_undone)
    }

    /// The token that is proposed to all masters. Normally it is above the last token of each, and they agree
    /// at once. It is also above tokens that were lost with the masters' data.
    fn proposal(&self) -> u64 {
        next_engine_token(self.shared.newest_token.load(Ordering::Relaxed), clock::wall_micros())
    }

    /// A tally in which only these masters have a vote.
    fn tally_of(&self, voters: &[usize]) -> Tally {
        let mut tally = Tally::of(self.topology().len());
        (0..self.topology().len())
            .filter(|master| !voters.contains(master))
            .for_each(|master| tally.note(master, ClaimVote::Silent));
        tally
    }

    /// Raises the masters that have the key to `token`.
    async fn raise(
        &self,
        claim: &Claim,
        before: &Tally,
        time_limit: Duration,
        [value, member]: [&[u8]; 2],
        token: u64,
    ) -> Tally {
        let ours: Vec<_> = before.ours().collect();
        let mut tally = self.tally_of(&ours);
        let args = vec![value.to_owned(), member.to_owned(), record::token_digits(token)];
        let request = MasterRequest { script: Script::Raise, name: claim.name.clone(), args, gate: None };
        let mut round = self.send(ours.into_iter(), time_limit, request);
        let raised = |_, answer: Result<Reply>| match answer {
            Ok(Reply::BulkString(token)) => {
                record::parse_token(&token).map_or(ClaimVote::Silent, ClaimVote::Ours)
            }
            _ => ClaimVote::Silent,
        };
        count(&mut round, &mut tally, raised).await;
        tally
    }

    fn granted(&self, claim: &Claim, token: u64) -> Verdict {
        self.shared.newest_token.fetch_max(token, Ordering::Relaxed);
        self.shared.attempts.granted(claim.id, token);
        Verdict::Granted(Grant { token: Some(token), valid: Valid::For(claim.ttl) })
    }

    /// Deletes the key on every master that may have acted, also where another claim seemed to have it, and
    /// where the reply is late: there the undo follows the claim on the same connection. Returns whether all
    /// have answered.
    async fn undo(
        &self,
        claim: &Claim,
        attempt: ClaimAttempts,
        time_limit: Duration,
        acted: Vec<usize>,
    ) -> bool {
        self.shared.attempts.begin_undo(claim.id);
        let args = vec![attempt.value(claim.id), Vec::new()];
        let request = MasterRequest { script: Script::Release, name: claim.name.clone(), args, gate: None };
        let mut round = self.send(acted.iter().copied(), time_limit, request);
        let mut answered = 0;
        while let Some((_, answer)) = round.next().await {
            answered += usize::from(answer.is_ok());
        }
        let is_undone = answered == acted.len();
        self.shared.attempts.end_undo(claim.id, is_undone);
        is_undone
    }

    fn failed(&self, claim: &Claim, tally: &Tally, replies: Replies, is_undone: bool) -> Result<Verdict> {
        if !self.is_answered(tally) {
            if let Err(left) = self.topology().out_of_quarantine() {
                return Ok(quarantined(left));
            }
            let effect = if is_undone { Effect::None } else { Effect::Unknown };
            return Err(replies.no_majority(tally.answered(), self.topology().len()).with_effect(effect));
        }
        let mut busy = Busy::new(self.pause(self.shared.attempts.busy(claim.id)));
        busy.holder = replies.named_by(1);
        Ok(Verdict::Busy(busy))
    }

    fn is_answered(&self, tally: &Tally) -> bool {
        tally.answered() >= self.topology().quorum()
    }

    /// Full jitter: two claims that split the votes must not meet again.
    fn pause(&self, attempts: u32) -> Duration {
        let longest = (FIRST_PAUSE * (1 << attempts.min(8))).min(MAX_PAUSE);
        let random = u32::from_be_bytes(self.clock().random_bytes());
        Duration::from_millis(1) + longest.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// Counts replies until they decide, or no more are expected.
async fn count(
    round: &mut Round<Reply>,
    tally: &mut Tally,
    mut vote: impl FnMut(usize, Result<Reply>) -> ClaimVote,
) {
    while tally.decide() == Decision::Open {
        match round.next().await {
            Some((master, answer)) => tally.note(master, vote(master, answer)),
            None => tally.close(),
        }
    }
}
