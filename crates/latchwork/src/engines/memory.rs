//! `memory:` locks of one process, for unit tests of code that locks.
//!
//! It runs on tokio's clock, so a test with paused time can let a lease run out in no time. [`Memory::fail_next`],
//! [`Memory::delay`] and [`Memory::lose`] play the faults of a real server.

mod cells;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use super::admission::Admission;
use crate::clock::{self, Clock, Moment};
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Engine, EngineUrl, Filter, Grant, LockState, Released, Renewal, Revoke,
    Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::names::AsItIs;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, LockName, Loss, Promise, Result};

/// The memory engine. Clones share their locks: give a clone to each client that is to compete.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> latchwork::Result<()> {
/// use latchwork::{Client, LockName, Loss, engines::Memory};
///
/// let engine = Memory::new();
/// let client = Client::new(engine.clone());
/// let guard = client.lock("report").acquire().await?;
/// engine.lose(&LockName::new("report")?); // what a flushed server would do
/// assert_eq!(guard.lost().await, Loss::Removed); // told at the next renewal, ten paused seconds later
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Memory {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

/// The calls a fault can be set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Asking for a lock.
    Claim,
    /// Extending a lease.
    Renew,
    /// Giving a lock back.
    Release,
    /// Reading or writing a cell.
    Cell,
}

#[derive(Default)]
struct State {
    locks: HashMap<LockName, Queue, AsItIs>,
    /// Holders that lost their lock at once and were not told yet: until their leases would have ended.
    revoked: HashMap<ClaimId, Moment, AsItIs>,
    last_token: u64,
    cells: cells::Stored,
    fails: HashMap<Verb, Effect>,
    fails_always: HashMap<Verb, Effect>,
    delays: HashMap<Verb, Duration>,
}

/// Holders and waiters of one lock, in order of arrival.
#[derive(Default)]
struct Queue {
    entries: Vec<Entry>,
}

struct Entry {
    claim: Claim,
    since: u64,
    /// When it last claimed.
    seen: Moment,
    held: Option<Held>,
    /// Made when somebody waits.
    bell: Option<Arc<Notify>>,
}

#[derive(Clone, Copy)]
struct Held {
    token: u64,
    until: Moment,
    revoked: bool,
}

impl Held {
    fn grant(self) -> Grant {
        Grant { token: Some(self.token), valid: Valid::Until(self.until) }
    }
}

impl Memory {
    /// An engine with no locks held.
    pub fn new() -> Self {
        Self::on(Clock::tokio())
    }

    /// The same on another clock that lives in the runtime, for simulations.
    pub fn on(clock: Clock) -> Self {
        Self { clock, state: Arc::default() }
    }

    pub(crate) async fn connect(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&[])?;
        if !url.path().is_empty() || url.hosts().next().is_some() {
            let message =
                "memory: takes nothing after the colon; to share locks between clients, clone one Memory";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self::new())
    }

    /// The next call of `verb` fails: with [`Effect::None`] without having acted, with [`Effect::Unknown`] after it.
    pub fn fail_next(&self, verb: Verb, effect: Effect) {
        self.state().fails.insert(verb, effect);
    }

    /// Every call of `verb` fails so, until it is set to `None`.
    pub fn fail_always(&self, verb: Verb, effect: Option<Effect>) {
        let fails = &mut self.state().fails_always;
        match effect {
            Some(effect) => fails.insert(verb, effect),
            None => fails.remove(&verb),
        };
    }

    /// Every call of `verb` takes this long before it acts, until it is set to zero.
    pub fn delay(&self, verb: Verb, by: Duration) {
        self.state().delays.insert(verb, by);
    }

    /// Forgets the holders of a lock, as a flushed server would. They learn of it at their next renewal.
    pub fn lose(&self, name: &LockName) {
        let mut state = self.state();
        if let Some(queue) = state.locks.get_mut(name) {
            queue.entries.retain(|entry| entry.held.is_none());
        }
        state.settle(name, self.clock.now());
    }

    pub(crate) fn promises() -> Guarantees {
        Guarantees {
            engine: "memory",
            tokens: Some("counter of the process"),
            tokens_survive_data_loss: false,
            fair: true,
            lists_waiters: true,
            pushes: true,
            tells_losses: false,
            tells_revocations: true,
            lives_with_session: false,
            read_write: true,
            permits: true,
            cells: true,
            watchers_told: "at once",
            takes_over: true,
            survives_blocked_runtime: false,
            outlives_wrapper: false,
            min_ttl: Duration::from_millis(100),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            ttl_option: None,
            dead_holder: "nobody is left to wait",
            faults: Faults {
                holder_crash: Promise::NotApplicable,
                holder_pause: Promise::FencedOnly,
                restart: Promise::NotApplicable,
                failover: Promise::NotApplicable,
                partition: Promise::NotApplicable,
                clock_step: Promise::Exclusive,
                data_deleted: Promise::FencedOnly,
            },
            beware: "one process only: for unit tests",
            warnings: Vec::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock_ignoring_poison(&self.state)
    }

    /// Plays the faults set for `verb` around what it does.
    async fn play<T>(&self, verb: Verb, act: impl FnOnce(&mut State, Moment) -> T) -> Result<T> {
        let delay = self.state().delays.get(&verb).copied();
        if let Some(delay) = delay {
            self.clock.sleep_until(self.clock.now().after(delay)).await;
        }
        let mut state = self.state();
        let fails = state.take_fault(verb);
        let failed =
            |effect| Error::new(ErrorKind::Unreachable, "the test let this call fail").with_effect(effect);
        match fails {
            Some(Effect::None) => Err(failed(Effect::None)),
            Some(Effect::Unknown) => {
                act(&mut state, self.clock.now());
                Err(failed(Effect::Unknown))
            }
            None => Ok(act(&mut state, self.clock.now())),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for Memory {
    fn guarantees(&self) -> Guarantees {
        Self::promises()
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.play(Verb::Claim, |state, now| state.claim(claim, now)).await?
    }

    async fn wait(&self, claim: &Claim, _: &Busy) -> Result<Wake> {
        loop {
            let bell = match self.state().entry(claim) {
                None => return Ok(Wake::Recheck),
                Some(Entry { held: Some(held), .. }) => return Ok(Wake::Granted(held.grant())),
                Some(entry) => entry.bell.get_or_insert_default().clone(),
            };
            // Rung between the look and this line, the bell remembers it.
            bell.notified().await;
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            answers.push(self.play(Verb::Renew, |state, now| state.renew(claim, now)).await);
        }
        answers
    }

    /// The server says nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.play(Verb::Release, |state, now| state.release(claim, now)).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let (mut state, now) = (self.state(), self.clock.now());
        let mut names: Vec<_> = state.locks.keys().filter(|name| filter.matches(name)).cloned().collect();
        names.sort();
        names.iter().for_each(|name| state.settle(name, now));
        Ok(names.iter().filter_map(|name| Some(state.locks.get(name)?.describe(name, now))).collect())
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let (mut guard, now) = (self.state(), self.clock.now());
        let state = &mut *guard;
        state.revoked.retain(|_, until| *until > now);
        let mut done = Revoked::NotHeld;
        let named = |entry: &Entry| lock.holders.iter().any(|holder| holder.id == entry.claim.id);
        if let Some(queue) = state.locks.get_mut(&lock.name) {
            for entry in queue.entries.iter_mut().filter(|entry| named(entry)) {
                let Some(held) = &mut entry.held else { continue };
                done = Revoked::Done;
                held.revoked = true;
                if how.is_now() {
                    state.revoked.insert(entry.claim.id, held.until);
                    held.until = now;
                }
            }
        }
        state.settle(&lock.name, now);
        Ok(done)
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()))
    }
}

impl State {
    fn take_fault(&mut self, verb: Verb) -> Option<Effect> {
        // To remove something from an empty map costs as much as from a full one.
        let once = if self.fails.is_empty() { None } else { self.fails.remove(&verb) };
        once.or_else(|| self.fails_always.get(&verb).copied())
    }

    fn entry(&mut self, claim: &Claim) -> Option<&mut Entry> {
        self.locks.get_mut(&claim.name)?.entries.iter_mut().find(|entry| entry.claim.id == claim.id)
    }

    fn claim(&mut self, claim: &Claim, now: Moment) -> Result<Verdict> {
        self.settle(&claim.name, now);
        let queue = self.locks.entry(claim.name.clone()).or_default();
        claim.mode.same_number(queue.entries.iter().map(|entry| entry.claim.mode))?;
        queue.take_over(claim, now);
        queue.enrol(claim, now);
        self.admit(&claim.name, now);
        let queue = self.locks.entry(claim.name.clone()).or_default();
        let position = queue.entries.iter().position(|entry| entry.claim.id == claim.id).unwrap_or_default();
        if let Some(Some(held)) = queue.entries.get(position).map(|entry| entry.held) {
            return Ok(Verdict::Granted(held.grant()));
        }
        let first_end = queue.entries.iter().filter_map(|entry| entry.held).map(|held| held.until).min();
        let heartbeat = claim.wait_lease / 3;
        let mut busy = Busy::new(first_end.unwrap_or(now).since(now).min(heartbeat));
        busy.floor = Some(self.last_token);
        busy.holder = queue.entries.first().map(|entry| entry.describe(now));
        if claim.wait_lease.is_zero() {
            queue.entries.remove(position);
        } else {
            busy.position = u32::try_from(position).ok();
        }
        Ok(Verdict::Busy(busy))
    }

    fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        if self.revoked.contains_key(&claim.id) {
            return Renewal::Lost(Loss::Revoked);
        }
        let Some(queue) = self.locks.get_mut(&claim.name) else { return Renewal::Lost(Loss::Removed) };
        let is_taken_over = queue.entries.iter().any(|entry| entry.is_taken_over_by(claim));
        let mine = queue.entries.iter_mut().find(|entry| entry.claim.id == claim.id);
        match mine.and_then(|entry| entry.held.as_mut()) {
            None if is_taken_over => Renewal::Lost(Loss::TakenOver),
            None => Renewal::Lost(Loss::Removed),
            Some(held) if held.revoked => Renewal::Lost(Loss::Revoked),
            Some(held) if held.until <= now => Renewal::Lost(Loss::Expired),
            Some(held) => {
                held.until = now.after(claim.ttl);
                Renewal::Kept(Valid::Until(held.until))
            }
        }
    }

    fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        let nothing =
            if self.revoked.remove(&claim.id).is_some() { Released::Revoked } else { Released::NotHeld };
        let Some(queue) = self.locks.get_mut(&claim.name) else { return nothing };
        let before = queue.entries.len();
        queue.entries.retain(|entry| entry.claim.id != claim.id);
        let released = if queue.entries.len() < before { Released::Freed } else { nothing };
        self.settle(&claim.name, now);
        released
    }

    /// Drops what has expired, grants what the rule admits, and forgets a lock nobody wants.
    fn settle(&mut self, name: &LockName, now: Moment) {
        let Some(queue) = self.locks.get_mut(name) else { return };
        queue.entries.retain(|entry| entry.lives_until() > now);
        self.admit(name, now);
    }

    fn admit(&mut self, name: &LockName, now: Moment) {
        let Some(queue) = self.locks.get_mut(name) else { return };
        let mut admission = Admission::default();
        for entry in &mut queue.entries {
            if admission.is_full() {
                break;
            }
            if entry.held.is_some() {
                admission.count(entry.claim.mode);
            } else if admission.fits(entry.claim.mode) {
                admission.count(entry.claim.mode);
                self.last_token += 1;
                let until = now.after(entry.claim.ttl);
                entry.held = Some(Held { token: self.last_token, until, revoked: false });
                entry.bell.iter().for_each(|bell| bell.notify_one());
            } else {
                break;
            }
        }
        if queue.entries.is_empty() {
            self.locks.remove(name);
        }
    }
}

impl Queue {
    /// Puts a claim in the place of the holder it takes over from; whoever waits goes on waiting.
    fn take_over(&mut self, claim: &Claim, now: Moment) {
        let Some(place) = self.entries.iter().position(|entry| entry.is_taken_over_by(claim)) else { return };
        self.entries.retain(|entry| entry.claim.id != claim.id);
        self.entries[place] = Entry::waiting(claim, now);
    }

    /// Takes a place at the end of the queue, or shows that the claim that has one is still there.
    fn enrol(&mut self, claim: &Claim, now: Moment) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.claim.id == claim.id) {
            entry.seen = now;
            return;
        }
        if self.entries.is_empty() {
            self.entries.reserve_exact(1); // Most locks are held by one and wanted by nobody else.
        }
        self.entries.push(Entry::waiting(claim, now));
    }

    fn describe(&self, name: &LockName, now: Moment) -> LockState {
        let mut state = LockState::new(name.clone());
        for entry in &self.entries {
            let list = if entry.held.is_some() { &mut state.holders } else { &mut state.waiters };
            list.push(entry.describe(now));
        }
        state
    }
}

impl Entry {
    fn waiting(claim: &Claim, now: Moment) -> Self {
        Self { claim: claim.clone(), since: clock::wall_micros(), seen: now, held: None, bell: None }
    }

    fn lives_until(&self) -> Moment {
        self.held.map_or_else(|| self.seen.after(self.claim.wait_lease), |held| held.until)
    }

    fn is_taken_over_by(&self, claim: &Claim) -> bool {
        self.held.is_some() && claim.takes_over(self.claim.id, self.claim.mode, self.claim.owner.as_ref())
    }

    fn describe(&self, now: Moment) -> ClaimState {
        let mut state = ClaimState::new(self.claim.id);
        state.permits = self.claim.mode.permits();
        state.token = self.held.map(|held| held.token);
        state.owner = self.claim.owner.clone();
        state.note = self.claim.note.clone();
        state.since = Some(SystemTime::UNIX_EPOCH + Duration::from_micros(self.since));
        state.expires_in = self.held.map(|held| held.until.since(now));
        state
    }
}
