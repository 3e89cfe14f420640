//! `memory:` locks of one process, for unit tests of code that locks.
//!
//! Leases are counted on tokio's clock, so that they end without delay in a test with paused time.
//! [`Memory::fail_next`], [`Memory::delay`] and [`Memory::lose`] simulate faults of a server.

mod cells;
mod queue;
mod shared;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use self::queue::Entry;
use self::shared::Shared;
use crate::clock::{Clock, Moment};
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, LockState, Released, Renewal, Revoke, Revoked,
    SharedCells, Verdict, Wake,
};
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, LockName, Promise, Result};

/// The memory engine. Clones share their locks: clients that compete are made from clones of one engine.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> latchwork::Result<()> {
/// use latchwork::{Client, LockName, Loss, engines::Memory};
///
/// let engine = Memory::new();
/// let client = Client::new(engine.clone());
/// let guard = client.lock("report").acquire().await?;
/// engine.lose(&LockName::new("report")?); // as a flushed server would
/// assert_eq!(guard.lost().await, Loss::Removed); // found by the next renewal, ten paused seconds later
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Memory {
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

/// The calls for which a fault can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Claiming a lock.
    Claim,
    /// Extending a lease.
    Renew,
    /// Releasing a lock.
    Release,
    /// Reading or writing a cell.
    Cell,
}

impl Memory {
    /// An engine with no locks held.
    pub fn new() -> Self {
        Self::on(Clock::tokio())
    }

    /// An engine on another clock of the runtime, for simulations.
    pub fn on(clock: Clock) -> Self {
        Self { clock, shared: Arc::default() }
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

    /// Lets the next call of `verb` fail: before it acts with [`Effect::None`], after it with
    /// [`Effect::Unknown`].
    pub fn fail_next(&self, verb: Verb, effect: Effect) {
        self.shared().fails.insert(verb, effect);
    }

    /// Lets every call of `verb` fail in this way, until the fault is removed with `None`.
    pub fn fail_always(&self, verb: Verb, effect: Option<Effect>) {
        let fails = &mut self.shared().fails_always;
        match effect {
            Some(effect) => fails.insert(verb, effect),
            None => fails.remove(&verb),
        };
    }

    /// Delays every call of `verb` by this long before it acts, until the delay is set to zero.
    pub fn delay(&self, verb: Verb, by: Duration) {
        self.shared().delays.insert(verb, by);
    }

    /// Removes the holders of a lock, as a flushed server would. Their next renewal reports the loss.
    pub fn lose(&self, name: &LockName) {
        self.shared().lose(name, self.clock.now());
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

    fn shared(&self) -> MutexGuard<'_, Shared> {
        lock_ignoring_poison(&self.shared)
    }

    /// Runs `act` with the faults that are set for `verb`.
    #[expect(clippy::disallowed_methods, reason = "a test asked for the delay")]
    async fn with_faults<T>(&self, verb: Verb, act: impl FnOnce(&mut Shared, Moment) -> T) -> Result<T> {
        let delay = self.shared().delays.get(&verb).copied();
        if let Some(delay) = delay {
            self.clock.sleep_until(self.clock.now().after(delay)).await;
        }
        let mut shared = self.shared();
        let fault = shared.take_fault(verb);
        let failed =
            |effect| Error::new(ErrorKind::Unreachable, "the test let this call fail").with_effect(effect);
        match fault {
            Some(Effect::None) => Err(failed(Effect::None)),
            Some(Effect::Unknown) => {
                act(&mut shared, self.clock.now());
                Err(failed(Effect::Unknown))
            }
            None => Ok(act(&mut shared, self.clock.now())),
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
        self.with_faults(Verb::Claim, |shared, now| shared.claim(claim, now)).await?
    }

    async fn wait(&self, claim: &Claim, _: &Busy) -> Result<Wake> {
        loop {
            let bell = match self.shared().entry(claim) {
                None => return Ok(Wake::Recheck),
                Some(Entry { lease: Some(lease), .. }) => return Ok(Wake::Granted(lease.grant())),
                Some(entry) => entry.bell.get_or_insert_default().clone(),
            };
            // A grant since the read above is not missed: `Notify` stores the permit.
            bell.notified().await;
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            answers.push(self.with_faults(Verb::Renew, |shared, now| shared.renew(claim, now)).await);
        }
        answers
    }

    /// Losses are reported by `renew` only.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.with_faults(Verb::Release, |shared, now| shared.release(claim, now)).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        Ok(self.shared().inspect(filter, self.clock.now()))
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        Ok(self.shared().revoke(lock, how, self.clock.now()))
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()))
    }
}
