//! `redlock://`: several Redis masters that know nothing of each other, a majority of which decides.
//!
//! The same key with the same value is set on all of them at once, as other Redlock clients do. Whoever has a majority holds, for
//! what is left of the ttl. There is no queue: who fails lets go everywhere, and tries again after a random while. Tokens
//! come from a counter on every master that a majority must agree on.

mod distinct_masters;
mod node;
mod options;
mod renew;
mod replies;
mod round;
mod send_gate;
mod tally;
mod votes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::node::{Ask, Node};
use self::options::Manner;
use self::replies::Replies;
use self::round::Round;
use self::send_gate::ClosesGate;
use self::tally::{Decision, Said, Tally};
use super::scripts::Script;
use super::wire::Value;
use super::{millis, record};
use crate::clock::{self, Clock};
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Engine, EngineUrl, Filter, Grant, Lifetime, LockState, Mode, Released,
    Renewal, Revoke, Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::engines::quarantine::quarantined_because;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, Promise, Result};

pub(in crate::engines::redis) use self::distinct_masters::DistinctMasters;

/// Who finds the lock held asks again within the first, and within twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How often masters are raised to each other's tokens before the claim is given up.
const MOST_RAISES: u32 = 4;
/// How long a release waits for a majority.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// The Redlock engine: one client's sessions with several masters.
#[derive(Clone)]
pub struct Redlock {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Vec<Node>,
    manner: Manner,
    claims: Mutex<HashMap<ClaimId, Standing>>,
    /// The greatest token that this client got.
    newest: AtomicU64,
}

/// How a claim stands that was sent and not given back.
#[derive(Clone, Copy, Default)]
struct Standing {
    /// How often it was undone. Each attempt has a value of its own, so that an undoing that arrives late undoes no other.
    attempt: u32,
    /// How often in a row it was asked in vain.
    vainly: u32,
    /// What it got.
    token: u64,
    /// Whether a master may have its key: it was asked, and not all that may have acted said that they let go.
    is_open: bool,
}

impl Redlock {
    /// Connects to the masters that `url` names. See `docs/engines/redlock.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an option it does not know, too few masters, or one that is named twice;
    /// [`ErrorKind::Unreachable`] if there is no majority.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (masters, manner) = Manner::of(url)?;
        let nodes = masters.into_iter().map(Node::new).collect();
        let shared = Shared { nodes, manner, claims: Mutex::default(), newest: AtomicU64::new(0) };
        let engine = Self { shared: Arc::new(shared) };
        engine.reach_all().await?;
        Ok(engine)
    }

    pub(crate) fn promises() -> Guarantees {
        promises(Duration::from_secs(60), true, Vec::new())
    }

    async fn reach_all(&self) -> Result<()> {
        let reach = |node: Node| async move { node.reach().await };
        let mut round = Round::begin(self.everybody(), self.clock().now().after(RELEASE_LIMIT), reach);
        let (mut reached, mut heard) = (0, Replies::default());
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(()) => reached += 1,
                Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
                    return Err(error);
                }
                Err(error) => heard.failed(&error),
            }
        }
        if reached >= self.quorum() { Ok(()) } else { Err(self.no_majority(reached, &heard)) }
    }

    fn quorum(&self) -> usize {
        Tally::quorum(self.shared.nodes.len())
    }

    fn everybody(&self) -> impl Iterator<Item = (usize, Node)> {
        self.shared.nodes.iter().cloned().enumerate()
    }

    /// A round of one question about one lock.
    fn ask(&self, masters: impl Iterator<Item = usize>, patience: Duration, ask: Ask) -> Round<Value> {
        let ask = Arc::new(ask);
        let masters = masters.map(|number| (number, self.shared.nodes[number].clone()));
        Round::begin(masters, self.clock().now().after(patience), |node| {
            let ask = ask.clone();
            async move { node.ask(&ask).await }
        })
    }

    /// The claim as it stands on the masters: its value, and its member.
    fn written(&self, claim: &Claim, attempt: u32) -> [Vec<u8>; 2] {
        let digits = record::encode_id(claim.id);
        let tail = record::Tail(claim, self.shared.nodes[0].session().mark()).bytes();
        [value(claim.id, attempt), [&digits[..], &tail].concat()]
    }

    /// The same token for all masters. Normally it is above what each of them has, and they agree at once. It is also above
    /// what was lost with their data.
    fn proposal(&self) -> u64 {
        (self.shared.newest.load(Ordering::Relaxed) + 1).max(clock::wall_micros())
    }

    async fn claim_now(&self, claim: &Claim, awake: &[usize]) -> Result<Verdict> {
        let standing = self.open(claim.id);
        let patience = self.shared.manner.patience(claim.ttl);
        let [value, member] = self.written(claim, standing.attempt);
        let proposal = format!("{:016}", self.proposal()).into_bytes();
        let args = vec![value.clone(), member.clone(), millis(claim.ttl).to_string().into_bytes(), proposal];
        let (mut tally, mut heard) = (Tally::of(self.shared.nodes.len()), Replies::default());
        (0..self.shared.nodes.len())
            .filter(|at| !awake.contains(at))
            .for_each(|at| tally.note(at, Said::Silent));
        let keeper = ClosesGate(Arc::default());
        let gate = Some(keeper.0.clone());
        let ask = Ask { script: Script::Claim, name: claim.name.clone(), args, gate };
        let mut round = self.ask(awake.iter().copied(), patience, ask);
        self.count(&mut round, &mut tally, |at, answer| heard.claimed(at, answer)).await;
        let mut decision = tally.decide();
        for _ in 0..MOST_RAISES {
            let Decision::Raise(token) = decision else { break };
            tally = self.raise(claim, &tally, patience, [&value, &member], token).await;
            decision = tally.decide();
        }
        match decision {
            Decision::Granted(token) => Ok(self.granted(claim, token)),
            _ => {
                if !self.is_answered(&tally) {
                    // What the rest says tells whether anything was done at all.
                    while let Some((at, answer)) = round.next().await {
                        tally.note(at, heard.claimed(at, answer));
                    }
                }
                drop(keeper);
                // Who did nothing has nothing to undo, and may not be there to be waited for.
                let acted = awake.iter().copied().filter(|at| !heard.inert.contains(at));
                let is_undone = self.undo(claim, patience, value, acted.collect()).await;
                self.failed(claim, &tally, heard, is_undone)
            }
        }
    }

    /// From here on masters may have the claim's key.
    fn open(&self, id: ClaimId) -> Standing {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let standing = claims.entry(id).or_default();
        standing.is_open = true;
        *standing
    }

    /// Counts answers until they decide, or nobody is waited for any more.
    async fn count(
        &self,
        round: &mut Round<Value>,
        tally: &mut Tally,
        mut read: impl FnMut(usize, Result<Value>) -> Said,
    ) {
        while tally.decide() == Decision::Open {
            match round.next().await {
                Some((at, answer)) => tally.note(at, read(at, answer)),
                None => tally.close(),
            }
        }
    }

    /// Raises the masters that have the key to `token`.
    async fn raise(
        &self,
        claim: &Claim,
        before: &Tally,
        patience: Duration,
        [value, member]: [&[u8]; 2],
        token: u64,
    ) -> Tally {
        let mut tally = Tally::of(self.shared.nodes.len());
        let ours: Vec<_> = before.ours().collect();
        (0..self.shared.nodes.len())
            .filter(|at| !ours.contains(at))
            .for_each(|at| tally.note(at, Said::Silent));
        let args = vec![value.to_owned(), member.to_owned(), format!("{token:016}").into_bytes()];
        let ask = Ask { script: Script::Raise, name: claim.name.clone(), args, gate: None };
        let mut round = self.ask(ours.into_iter(), patience, ask);
        let raised = |_, answer: Result<Value>| match answer {
            Ok(Value::BulkString(token)) => record::token(&token).map_or(Said::Silent, Said::Ours),
            _ => Said::Silent,
        };
        self.count(&mut round, &mut tally, raised).await;
        tally
    }

    fn granted(&self, claim: &Claim, token: u64) -> Verdict {
        self.shared.newest.fetch_max(token, Ordering::Relaxed);
        self.change(claim.id, |standing| (standing.token, standing.vainly) = (token, 0));
        Verdict::Granted(Grant { token: Some(token), valid: Valid::For(claim.ttl) })
    }

    /// Lets go on every master that may have acted, also where the key seemed to be another's, and where the answer is late:
    /// this goes behind it. Says whether all have answered.
    async fn undo(&self, claim: &Claim, patience: Duration, value: Vec<u8>, acted: Vec<usize>) -> bool {
        self.change(claim.id, |standing| standing.attempt += 1);
        let args = vec![value, Vec::new()];
        let ask = Ask { script: Script::Release, name: claim.name.clone(), args, gate: None };
        let mut round = self.ask(acted.iter().copied(), patience, ask);
        let mut answered = 0;
        while let Some((_, answer)) = round.next().await {
            answered += usize::from(answer.is_ok());
        }
        let is_undone = answered == acted.len();
        self.change(claim.id, |standing| standing.is_open &= !is_undone);
        is_undone
    }

    fn failed(&self, claim: &Claim, tally: &Tally, heard: Replies, is_undone: bool) -> Result<Verdict> {
        if let (false, Err(left)) = (self.is_answered(tally), self.awake()) {
            return Ok(Self::quarantined(left));
        }
        if !self.is_answered(tally) {
            let effect = if is_undone { Effect::None } else { Effect::Unknown };
            return Err(self.no_majority(tally.answered(), &heard).with_effect(effect));
        }
        let mut vainly = 0;
        self.change(claim.id, |standing| {
            vainly = standing.vainly;
            standing.vainly += 1;
        });
        let mut busy = Busy::new(self.pause(vainly));
        busy.holder = heard.named_by(1);
        Ok(Verdict::Busy(busy))
    }

    fn is_answered(&self, tally: &Tally) -> bool {
        tally.answered() >= self.quorum()
    }

    /// Full jitter: two that split the votes must not meet again.
    fn pause(&self, vainly: u32) -> Duration {
        let longest = (FIRST_PAUSE * (1 << vainly.min(8))).min(LONGEST_PAUSE);
        let random = u32::from_be_bytes(self.clock().random_bytes());
        Duration::from_millis(1) + longest.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    fn no_majority(&self, answered: usize, heard: &Replies) -> Error {
        let (masters, quorum) = (self.shared.nodes.len(), self.quorum());
        let mut why: Vec<&str> = heard.failures.iter().map(|(_, message)| message.as_str()).collect();
        let kind = heard.kind(!why.is_empty() && answered + why.len() >= masters);
        if kind == ErrorKind::Invalid && why.iter().all(|message| *message == why[0]) {
            // Such as a reserved name: it names no master, because none was asked.
            return Error::new(kind, why[0].to_owned());
        }
        if why.is_empty() {
            why.push("the others did not answer in time");
        }
        let why = why.join("; ");
        let message =
            format!("redlock: {answered} of {masters} masters answered, {quorum} are needed: {why}");
        Error::new(kind, message)
    }

    /// Forgets a claim that failed. Its only attempt was undone on every master that it may
    /// have reached, so no release may follow. After several attempts the undo of an earlier one may still be in
    /// flight, and the attempt numbers must not start again.
    fn forget_undone(&self, id: ClaimId) {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        if claims.get(&id).is_some_and(|standing| standing.attempt <= 1 && !standing.is_open) {
            claims.remove(&id);
        }
    }

    fn change(&self, id: ClaimId, change: impl FnOnce(&mut Standing)) {
        if let Some(standing) = lock_ignoring_poison(&self.shared.claims).get_mut(&id) {
            change(standing);
        }
    }

    /// The masters that may be asked for locks; if they are too few, for how long.
    fn awake(&self) -> std::result::Result<Vec<usize>, Duration> {
        let left = |node: &Node| node.session().quarantine().unwrap_or_default();
        let all: Vec<_> = self.shared.nodes.iter().map(left).collect();
        let awake: Vec<_> = (0..all.len()).filter(|at| all[*at].is_zero()).collect();
        if awake.len() >= self.quorum() {
            return Ok(awake);
        }
        let mut soonest = all;
        soonest.sort();
        Err(soonest[self.quorum() - 1])
    }

    /// Masters that may have forgotten locks are not asked for any.
    fn quarantined(left: Duration) -> Verdict {
        let why = "they started less than max-ttl ago and may have forgotten who holds";
        quarantined_because("a majority", why, left)
    }
}

/// What stands in the key: the claim's id, and the number of the attempt if it is not the first.
fn value(id: ClaimId, attempt: u32) -> Vec<u8> {
    let mut value = record::encode_id(id).to_vec();
    if attempt > 0 {
        value.extend(format!("-{attempt}").bytes());
    }
    value
}

fn promises(max_ttl: Duration, is_strict: bool, warnings: Vec<String>) -> Guarantees {
    Guarantees {
        engine: "redlock",
        tokens: Some("counter that a majority agrees on, at least the client's time in us"),
        tokens_survive_data_loss: true,
        fair: false,
        lists_waiters: false,
        pushes: false,
        tells_losses: false,
        tells_revocations: true,
        lives_with_session: false,
        read_write: false,
        permits: false,
        cells: false,
        watchers_told: "-",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl,
        ttl_option: Some("max-ttl"),
        dead_holder: "the ttl",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: if is_strict { Promise::Exclusive } else { Promise::FencedOnly },
            failover: Promise::FencedOnly,
            partition: Promise::Exclusive,
            clock_step: Promise::FencedOnly,
            data_deleted: Promise::FencedOnly,
        },
        beware: "exclusive as long as a majority of masters keeps what it was told and counts time at the right rate; who \
                 waits asks again and again, in no order",
        warnings,
    }
}

impl Engine for Redlock {
    fn guarantees(&self) -> Guarantees {
        let Shared { nodes, manner, .. } = &*self.shared;
        let mut warnings: Vec<_> = nodes.iter().flat_map(|node| node.session().warnings()).collect();
        warnings.dedup();
        if nodes.len() % 2 == 0 {
            let masters = nodes.len();
            let fewer = masters - 1;
            warnings.push(format!(
                "{masters} masters survive the loss of no more than {fewer} do, and votes can be split evenly; use an odd number"
            ));
        }
        promises(manner.longest_ttl, manner.is_strict, warnings)
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// The same sessions: every runtime has connections of its own.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease {
            let message = "redlock supports only exclusive locks with a lease: with permits, several clients could each get a part of \
                           the masters, and none a majority";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let verdict = match self.awake() {
            Ok(awake) => self.claim_now(claim, &awake).await,
            Err(left) => Ok(Self::quarantined(left)),
        };
        // Nothing is left of it, and no release may follow (C11).
        match &verdict {
            Ok(Verdict::Busy(_)) if claim.wait_lease.is_zero() => {
                lock_ignoring_poison(&self.shared.claims).remove(&claim.id);
            }
            Err(error) if error.effect() == Effect::None => self.forget_undone(claim.id),
            _ => {}
        }
        verdict
    }

    /// Masters tell nobody: the core asks again.
    async fn wait(&self, _claim: &Claim, _busy: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.renew_all(claims).await
    }

    /// Masters say nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let standing = lock_ignoring_poison(&self.shared.claims).remove(&claim.id);
        if standing.is_some_and(|standing| !standing.is_open) {
            // Every attempt was undone. To ask the masters again would only wait for those that are gone.
            return Ok(Released::NotHeld);
        }
        let attempt = standing.unwrap_or_default().attempt;
        let args = vec![value(claim.id, attempt), record::encode_id(claim.id).to_vec()];
        let ask = Ask { script: Script::Release, name: claim.name.clone(), args, gate: None };
        let mut round = self.ask(0..self.shared.nodes.len(), self.shared.manner.patience(claim.ttl), ask);
        let (mut freed, mut answered, mut heard) = (0, 0, Replies::default());
        let mut is_late = false;
        loop {
            match round.next().await {
                Some((_, Ok(answer))) => {
                    answered += 1;
                    freed += usize::from(answer == Value::Int(1));
                }
                Some((_, Err(error))) => heard.failed(&error),
                None if answered < self.quorum() && !is_late => {
                    is_late = true;
                    round.extend(self.clock().now().after(RELEASE_LIMIT));
                }
                None => break,
            }
        }
        match (answered >= self.quorum(), freed) {
            (false, _) => Err(self.no_majority(answered, &heard).with_effect(Effect::Unknown)),
            (true, 0) => Ok(Released::NotHeld),
            (true, _) => Ok(Released::Freed),
        }
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.majority_of(filter).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        // A majority says who holds and whether that is a claim of ours: a master that was healed may not know.
        let seen = self.majority_of(&Filter::Name(lock.name.clone())).await?;
        let is_named = |now: &&ClaimState| lock.holders.iter().any(|named| named.id == now.id);
        let Some(holder) = seen.iter().flat_map(|seen| &seen.holders).find(is_named) else {
            return Ok(Revoked::NotHeld);
        };
        how.check(holder).map_err(|error| error.about(&lock.name))?;
        let is_ours = holder.foreign.is_none();
        let revoke = |node: Node| {
            let lock = lock.clone();
            async move { node.alone().take_away(&lock, how, is_ours).await }
        };
        let mut round = Round::begin(self.everybody(), self.clock().now().after(RELEASE_LIMIT), revoke);
        let (mut done, mut answered, mut heard) = (0, 0, Replies::default());
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(revoked) => {
                    answered += 1;
                    done += usize::from(revoked == Revoked::Done);
                }
                // Another's by now.
                Err(error) if error.kind() == ErrorKind::Foreign => answered += 1,
                Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
                Err(error) => heard.failed(&error),
            }
        }
        match (answered >= self.quorum(), done) {
            (false, _) => Err(self.no_majority(answered, &heard).with_effect(Effect::Unknown)),
            (true, 0) => Ok(Revoked::NotHeld),
            (true, _) => Ok(Revoked::Done),
        }
    }

    fn cells(&self) -> Option<SharedCells> {
        None
    }
}
