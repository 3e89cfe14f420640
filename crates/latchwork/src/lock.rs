//! A lock that is described, and not held yet.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::core::{
    self, AcquireOutcome, Blocker, ClientHandle, LeaseTerms, LockTerms, OnWaiting, WaitUntil, defaults,
};
use crate::engine::{Lifetime, Mode, Note};
use crate::{Effect, Error, ErrorKind, Guard, Held, LockName, OwnerId, Result, Waiting};

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Only tries.
    Never,
    /// Waits at most this long.
    UpTo(Duration),
    /// Waits without a limit.
    Forever,
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        if limit.is_zero() { Self::Never } else { Self::UpTo(limit) }
    }
}

/// A lock that is described, and not held yet. Created by [`Client::lock`](crate::Client::lock). It may be
/// acquired any number of times.
#[derive(Clone)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct Lock {
    core: ClientHandle,
    /// `Err`: the first error of the builder, reported when the lock is acquired.
    name: Result<LockName, Arc<Error>>,
    wait: Wait,
    terms: Arc<LockTerms>,
}

impl Lock {
    pub(crate) fn new(core: ClientHandle, name: &str, note: Note) -> Self {
        let terms = LockTerms {
            mode: Mode::Exclusive,
            owner: None,
            lease: LeaseTerms { ttl: defaults::TTL, stop_margin: None, max_hold: None },
            pass_for: defaults::PASS_FOR,
            lifetime: Lifetime::Lease,
            fenced: false,
            at_least: Duration::ZERO,
            note,
            tells: None,
            on_waiting: None,
        };
        let name = LockName::new(name).map_err(Arc::new);
        Self { core, name, wait: Wait::Forever, terms: Arc::new(terms) }
    }

    fn terms_mut(&mut self) -> &mut LockTerms {
        Arc::make_mut(&mut self.terms)
    }

    /// Sets which claims may hold beside this one.
    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.terms_mut().mode = mode;
        self
    }

    /// Publishes a value of the holder, where the engine stores it with the claim.
    pub(crate) fn tells(mut self, value: &[u8]) -> Self {
        self.terms_mut().tells = Some(value.into());
        self
    }

    /// Rejects what was built, unless an earlier error did. Reported when the lock is acquired.
    pub(crate) fn reject(mut self, error: Error) -> Self {
        self.name = self.name.and_then(|name| Err(Arc::new(error.about(&name))));
        self
    }

    /// Sixteen random bytes, from the engine's clock.
    pub(crate) fn random_bytes(&self) -> [u8; 16] {
        self.core.clock.random_bytes()
    }

    /// A lock of another name with the same options.
    pub(crate) fn named(&self, name: &str) -> Self {
        let name = self.name.clone().and_then(|_| LockName::new(name).map_err(Arc::new));
        Self { name, ..self.clone() }
    }

    /// Sets the lease: the time for which a holder that died may block others. The default is 30 s. The lease
    /// is renewed while the guard lives.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms_mut().lease.ttl = ttl;
        self
    }

    /// Limits the wait of [`Lock::acquire`]. The default is no limit.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// Sets how long before the end of a lease that could not be renewed the lock counts as lost. The default
    /// is a tenth of the ttl, and at least 50 ms. The margin is never more than half of the remaining lease.
    pub fn stop_margin(mut self, margin: Duration) -> Self {
        self.terms_mut().lease.stop_margin = Some(margin);
        self
    }

    /// Limits the time for which one guard may hold the lock, against work that never ends. After that time
    /// the lock is lost, even if all renewals succeed, and it is free when its lease ends. The default is no
    /// limit.
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.terms_mut().lease.max_hold = Some(most);
        self
    }

    /// Keeps the lock held for at least this long, counted from its grant, even if its guard is released
    /// earlier. It is for a job that every machine starts at the same hour, on clocks that differ. The
    /// default is to release the lock with its guard.
    ///
    /// The release of the guard returns at once. The client then keeps and renews the claim in the
    /// background, and does not pass it to another of its tasks. [`Client::close`](crate::Client::close)
    /// waits until the claim is released.
    ///
    /// If the process ends earlier, the lock lasts as long as after any crash. Where a claim ends with its
    /// lease, that is at least `least`, less the hundredth by which clock rates may differ, because the ttl
    /// must be at least as long. Where the engine notices the end of a process (sqlite, sessions), the lock
    /// is free at that moment.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let (nightly, fifty) = (client.lock("nightly"), Duration::from_secs(50));
    /// let job = nightly.clone().ttl(Duration::from_secs(60)).hold_at_least(fifty).acquire().await?;
    /// job.release().await?; // the job took no time
    /// assert!(nightly.try_acquire().await?.is_none(), "a machine whose clock is late would run it again");
    /// client.close().await?; // which takes fifty paused seconds
    /// assert!(nightly.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn hold_at_least(mut self, least: Duration) -> Self {
        self.terms_mut().at_least = least;
        self
    }

    /// Sets an identity that survives restarts: 1 to 128 bytes, without control characters. The default is
    /// none.
    ///
    /// Guards of one owner in one client hold the lock together: the second is acquired at once, with the
    /// token and the lease of the first, and the release of the last one releases the lock. Another client
    /// with the same owner *takes over* from a holder, ahead of all waiters: it gets a greater token, and the
    /// former guard is lost, at the latest at its next renewal. Until then both may work, so this is only for
    /// stores that check the token.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::{Client, Loss, engines::Memory};
    ///
    /// let engine = Memory::new();
    /// let (before, after_restart) = (Client::new(engine.clone()), Client::new(engine));
    /// let outer = before.lock("ledger").owner("writer-1").acquire().await?;
    /// let inner = before.lock("ledger").owner("writer-1").acquire().await?;
    /// assert_eq!(inner.token()?, outer.token()?);
    ///
    /// let taken_over = after_restart.lock("ledger").owner("writer-1").acquire().await?;
    /// assert!(taken_over.token()? > outer.token()?);
    /// assert_eq!(outer.lost().await, Loss::TakenOver);
    /// # Ok(()) }
    /// ```
    pub fn owner(mut self, id: impl AsRef<str>) -> Self {
        match OwnerId::new(&id) {
            Ok(owner) => self.terms_mut().owner = Some(owner),
            Err(error) => return self.reject(error),
        }
        self
    }

    /// Sets whether a released lock may pass directly to the next waiting task of this client, with a greater
    /// token and without a request to the engine. The default is yes, for [`Lock::pass_for`].
    pub fn local_handoff(self, on: bool) -> Self {
        self.pass_for(if on { defaults::PASS_FOR } else { Duration::ZERO })
    }

    /// Limits the time for which a lock may pass from task to task of this client, or readers may join its
    /// holders, before other clients get their turn. The default is 5 ms. A longer time adds little
    /// throughput, and much waiting for other clients.
    pub fn pass_for(mut self, span: Duration) -> Self {
        self.terms_mut().pass_for = span;
        self
    }

    /// Sets what ends the claim if it is not released. The default is its lease.
    pub fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.terms_mut().lifetime = lifetime;
        self
    }

    /// Requires a fencing token with every grant, also where that costs extra: a session lock of a database
    /// then increments a counter, which is one durable commit per grant. Most engines give a token anyway,
    /// and this changes nothing.
    ///
    /// `acquire` then fails with [`ErrorKind::Unsupported`] on an engine without tokens.
    pub fn fenced(mut self) -> Self {
        self.terms_mut().fenced = true;
        self
    }

    /// Calls `observer` when [`Lock::acquire`] has to wait, and at every change of the state of the wait: the
    /// holder, the position in the queue, an outage of the server, a quarantine after its restart. It is
    /// called neither for a free lock nor by [`Lock::try_acquire`]. It causes no requests: the state comes
    /// from the engine's replies to the claim.
    ///
    /// `observer` runs in the task that acquires the lock, on that task's thread, and must not block. The
    /// library holds no mutex meanwhile. A panic in `observer` unwinds through `acquire`, which then leaves
    /// no claim behind. A lock has one observer; a second one replaces the first.
    ///
    /// # Cancel safety
    /// When `acquire` is dropped, the calls end with it. No call reports the end of a wait.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let held = client.lock("nightly").acquire().await?;
    /// let waiting = client.lock("nightly").wait(Duration::from_secs(5)).on_waiting(|state| {
    ///     let name = &state.lock;
    ///     match (&state.quarantine, &state.outage, &state.holder) {
    ///         (Some(quarantine), ..) => eprintln!("{name:?}: {} ({:?} left)", quarantine.why, quarantine.left),
    ///         (_, Some(outage), _) => eprintln!("{name:?}: {}, for {:?}", outage.message, outage.lasts),
    ///         (.., Some(holder)) => eprintln!("{name:?} is held by {}", holder.as_str()),
    ///         _ => eprintln!("{name:?} is held"),
    ///     }
    /// });
    /// assert!(waiting.acquire().await.is_err());
    /// # drop(held); Ok(()) }
    /// ```
    pub fn on_waiting(mut self, observer: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.terms_mut().on_waiting = Some(OnWaiting::new(observer));
        self
    }

    /// Acquires the lock if it is free.
    ///
    /// # Guarantees
    /// Never overtakes waiters on a fair engine, and never waits for another holder. If the only obstacle is
    /// an earlier claim of this client whose release failed, that release is repeated first, at once.
    ///
    /// # Cancel safety
    /// May be dropped at any time. A grant that arrives after the drop is released in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a bad name or ttl, [`ErrorKind::Unsupported`] for options that the engine
    /// does not support, and the errors of the engine. A lock held by another client is `None`, and no error;
    /// with one exception: [`ErrorKind::Busy`], with [`may_be_held_until`](Error::may_be_held_until), if the
    /// reply to a claim is missing and the claim could not be withdrawn. If an earlier claim of this client
    /// could not be released, the error has the kind of that failure (most often [`ErrorKind::Unreachable`]).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let mine = client.lock("nightly").try_acquire().await?.expect("the lock is free");
    /// assert!(client.lock("nightly").try_acquire().await?.is_none());
    /// mine.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(match self.attempt(WaitUntil::Never).await? {
            AcquireOutcome::Held(held) => Some(Guard::new(held, self.core.clone())),
            AcquireOutcome::NotHeld { left: None, .. } => None,
            AcquireOutcome::NotHeld { blocker, left } => {
                return Err(self.not_held(Wait::Never, blocker, left));
            }
        })
    }

    /// Acquires the lock, and waits for it up to the limit of [`Lock::wait`].
    ///
    /// # Guarantees
    /// On return this guard holds the lock, and no other guard reports a certain hold. On a fair engine,
    /// clients are served in the order of their arrival.
    ///
    /// # Cancel safety
    /// May be dropped at any time. The claim leaves the queue, and a grant that arrives after the drop is
    /// released in the background.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when the wait limit has passed, [`ErrorKind::Busy`] with [`Wait::Never`],
    /// [`ErrorKind::Invalid`] for a bad name or ttl, [`ErrorKind::Unsupported`] for options that the engine
    /// does not support, and the errors of the engine.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let guard = client.lock("orders/42").wait(Duration::from_secs(5)).acquire().await?;
    /// assert!(guard.is_certain());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_within(self.wait_until()).await
    }

    /// Acquires the lock as one of several that share a limit.
    pub(crate) async fn acquire_within(&self, wait: WaitUntil) -> Result<Guard> {
        match self.attempt(wait).await? {
            AcquireOutcome::Held(held) => Ok(Guard::new(held, self.core.clone())),
            AcquireOutcome::NotHeld { blocker, left } => Err(self.not_held(self.wait, blocker, left)),
        }
    }

    /// The end of a wait that begins now.
    pub(crate) fn wait_until(&self) -> WaitUntil {
        match self.wait {
            Wait::Never => WaitUntil::Never,
            Wait::UpTo(limit) => WaitUntil::Moment(self.core.clock.now().after(limit)),
            Wait::Forever => WaitUntil::Forever,
        }
    }

    /// Runs `work` while the lock is held. The work is dropped when the lock is lost.
    ///
    /// # Guarantees
    /// Returns `Ok` only if no loss is known when the work is done: neither by the clock of this client, nor
    /// by the engine's reply to the release (a lock that is passed to another task is not released yet). The
    /// lock is released before this returns, or in the background if the engine does not reply.
    ///
    /// # Cancel safety
    /// When it is dropped, the work is dropped first. The lock is then released in the background.
    ///
    /// # Errors
    /// The error of `work`. Otherwise, converted into the error type of `work`, the errors of
    /// [`Lock::acquire`], and [`ErrorKind::Lost`] if the lock was lost before its release.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use latchwork::Held;
    ///
    /// async fn build_report(held: &Held) -> Result<String, Box<dyn std::error::Error>> {
    ///     Ok(format!("written with token {}", held.token()?))
    /// }
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let report = client.lock("report").run(async |held| build_report(&held).await).await?;
    /// assert!(report.starts_with("written"));
    /// # Ok(()) }
    /// ```
    pub async fn run<T, E: From<Error>>(&self, work: impl AsyncFnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        self.acquire().await?.run(work).await
    }

    async fn attempt(&self, wait: WaitUntil) -> Result<AcquireOutcome> {
        let name = self.checked()?;
        // A free lock is acquired without an await that yields. A loop of such calls must not starve the
        // other tasks of its thread.
        tokio::task::coop::consume_budget().await;
        core::acquire(&self.core, name, &self.terms, wait).await
    }

    /// The name, if nothing was rejected and the engine supports the options.
    pub(crate) fn checked(&self) -> Result<&LockName> {
        let name = self.name.as_ref().map_err(|error| error.again())?;
        self.check().map_err(|error| error.about(name))?;
        Ok(name)
    }

    /// An option that the engine does not support is an error, never a silent downgrade.
    fn check(&self) -> Result<()> {
        let (promised, terms) = (&self.core.promised, &self.terms);
        let engine = promised.engine;
        self.core.refuse_a_copy()?;
        let ttl = terms.lease.ttl;
        if ttl < promised.min_ttl || ttl > promised.max_ttl {
            let (min, max) = (promised.min_ttl, promised.max_ttl);
            let knob =
                promised.ttl_option.map_or_else(String::new, |option| format!(" ({option}= in the URL)"));
            let message =
                format!("a ttl of {ttl:?} is out of range; {engine} takes {min:?} to {max:?}{knob}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some((most, knob)) = [(Some(ttl), "ttl"), (terms.lease.max_hold, "max_hold")]
            .into_iter()
            .find_map(|(most, knob)| most.filter(|most| *most < terms.at_least).map(|most| (most, knob)))
        {
            let least = terms.at_least;
            let message =
                format!("hold_at_least {least:?} is longer than {knob} {most:?}; raise .{knob}() to it");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if terms.lifetime == Lifetime::Session && !promised.outlives_wrapper {
            let message = format!("{engine} cannot bind a claim to its session alone; use a lease");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if terms.owner.is_some() && !promised.takes_over {
            let message = format!("{engine} does not support owners; remove .owner()");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if terms.fenced && promised.tokens.is_none() {
            let message = format!("{engine} has no fencing tokens; remove .fenced()");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.check_mode()
    }

    fn check_mode(&self) -> Result<()> {
        let (promised, terms) = (&self.core.promised, &self.terms);
        let lacks = match terms.mode {
            Mode::Exclusive => return Ok(()),
            Mode::Read | Mode::Write => (!promised.read_write).then_some("read and write locks"),
            Mode::Permit { .. } => (!promised.permits).then_some("permits"),
        };
        if let Some(what) = lacks {
            let engine = promised.engine;
            let message = format!("{engine} has no {what}; `latch engines` names those that have");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if terms.owner.is_some() {
            let message = "only an exclusive lock can have an owner; remove .owner()";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    fn not_held(&self, wait: Wait, blocker: Blocker, left: Option<Moment>) -> Error {
        let by = |note: Option<Note>| {
            note.filter(|note| !note.as_str().is_empty()).map(|note| format!("by {}", note.as_str()))
        };
        let (permits, state, why) = match (blocker, self.terms.mode.permits()) {
            (Blocker::Elsewhere(note), Some(of)) => {
                let one = by(note).map_or_else(String::new, |by| format!(" (one {by})"));
                (format!("{of} of {of} permits "), format!("held{one}"), String::new())
            }
            (Blocker::Elsewhere(note) | Blocker::Quarantine(note), _) => {
                let by = by(note).map_or_else(String::new, |by| format!(" {by}"));
                (String::new(), format!("held{by}"), String::new())
            }
            // The tasks of this client never have more claims out than there are permits.
            (Blocker::Task | Blocker::WaitingTask, Some(of)) => {
                let why = format!(": other tasks of this client hold or wait for all {of} permits");
                (String::new(), "not free".to_owned(), why)
            }
            (Blocker::Task, None) => {
                (String::new(), "held by another task of this client".to_owned(), String::new())
            }
            (Blocker::WaitingTask, None) => {
                let why = ": another task of this client waits for it first".to_owned();
                (String::new(), "not free".to_owned(), why)
            }
        };
        let error = match wait {
            Wait::UpTo(limit) => {
                let message = format!("{permits}still {state} after waiting {limit:?}{why}");
                Error::new(ErrorKind::TimedOut, message)
            }
            _ => Error::new(ErrorKind::Busy, format!("{permits}{state}{why}")),
        };
        let error = match left {
            Some(until) => error.with_effect(Effect::Unknown).may_be_held(until, self.core.clock.now()),
            None => error,
        };
        match &self.name {
            Ok(name) => error.about(name),
            Err(_) => error,
        }
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.name)
            .field("wait", &self.wait)
            .field("terms", &self.terms)
            .finish()
    }
}
