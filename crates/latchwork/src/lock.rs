//! A lock, described and not yet held.

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
    /// Only try.
    Never,
    /// At most this long.
    UpTo(Duration),
    /// As long as it takes.
    Forever,
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Self {
        if limit.is_zero() { Self::Never } else { Self::UpTo(limit) }
    }
}

/// A lock, described and not yet held. Made by [`Client::lock`](crate::Client::lock); may be acquired again and again.
#[derive(Clone)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct Lock {
    core: ClientHandle,
    /// Or the text that is none.
    name: Result<LockName, Arc<str>>,
    wait: Wait,
    terms: Arc<LockTerms>,
    /// What was given as an owner and is none.
    bad_owner: Option<Arc<str>>,
    /// What is wrong with the recipe it belongs to.
    wrong: Option<&'static str>,
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
        let name = LockName::new(name).map_err(|_| name.into());
        Self { core, name, wait: Wait::Forever, terms: Arc::new(terms), bad_owner: None, wrong: None }
    }

    fn terms_mut(&mut self) -> &mut LockTerms {
        Arc::make_mut(&mut self.terms)
    }

    /// The same lock for others beside it.
    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.terms_mut().mode = mode;
        self
    }

    /// The same lock, whose holder tells everybody this, where the engine keeps it with the claim.
    pub(crate) fn tells(mut self, value: &[u8]) -> Self {
        self.terms_mut().tells = Some(value.into());
        self
    }

    /// The same lock, to be refused when it is asked for.
    pub(crate) fn wrong(mut self, why: Option<&'static str>) -> Self {
        self.wrong = why;
        self
    }

    /// Sixteen bytes to choose by.
    pub(crate) fn draw(&self) -> [u8; 16] {
        self.core.clock.random_bytes()
    }

    /// Another lock on the same terms.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { name: LockName::new(name).map_err(|_| name.into()), ..self.clone() }
    }

    /// How long a holder that vanished may block others. Default 30 s; renewed while the guard lives.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms_mut().lease.ttl = ttl;
        self
    }

    /// How long [`Lock::acquire`] waits. Default: forever.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// How long before the end of an unrenewed lease the holder is told to stop. Default a tenth of the ttl, at least
    /// 50 ms; never more than half of what is left.
    pub fn stop_margin(mut self, margin: Duration) -> Self {
        self.terms_mut().lease.stop_margin = Some(margin);
        self
    }

    /// How long one guard may hold the lock, however well renewals go: then it is lost, and once its lease ends the lock
    /// is free. Against work that never ends. Default: as long as the guard lives.
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.terms_mut().lease.max_hold = Some(most);
        self
    }

    /// How long the lock stays held at the least, counted from its grant, however soon its guard lets go: for a job that
    /// every machine starts at the same hour, on clocks that differ. Default: no longer than the guard lives.
    ///
    /// A guard that is released or dropped earlier returns at once, and the client keeps and renews the claim in the
    /// background until then; no task of this client gets it before either. [`Client::close`](crate::Client::close) waits for
    /// it. If the process ends before, the lock lasts as long as after any crash: where
    /// a claim ends with its lease, for no less than `least` (less the hundredth by which clocks may differ), because the ttl must be at least as long; where the engine sees
    /// the end of a process (sqlite, sessions), until then.
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
    /// job.release().await?; // it took no time at all
    /// assert!(nightly.try_acquire().await?.is_none(), "somebody whose clock is late would do it again");
    /// client.close().await?; // which takes fifty paused seconds
    /// assert!(nightly.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn hold_at_least(mut self, least: Duration) -> Self {
        self.terms_mut().at_least = least;
        self
    }

    /// Who holds it, across restarts: 1 to 128 bytes, without control characters. Default: this claim, and nobody else.
    ///
    /// Guards of one owner in one client hold together: the second is had at once, with the token and the lease of the
    /// first, and the last to go gives the lock back. A client elsewhere with the same owner *takes over* from a holder,
    /// past everyone who waits: it gets a greater token, and the former guard is lost, at the latest at its next
    /// renewal. Until then both may work, so this is only for stores that check the token.
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
            Err(_) => self.bad_owner = Some(id.as_ref().into()),
        }
        self
    }

    /// Whether a released lock may go straight to the next waiting task of this client, with a greater token and without
    /// asking the engine. Default: yes, for [`Lock::pass_for`].
    pub fn local_handoff(self, on: bool) -> Self {
        self.pass_for(if on { defaults::PASS_FOR } else { Duration::ZERO })
    }

    /// For how long a lock may go from task to task of this client, or readers may join those that hold it, before other
    /// clients get their turn. Default 5 ms; more buys little throughput for much waiting elsewhere.
    pub fn pass_for(mut self, span: Duration) -> Self {
        self.terms_mut().pass_for = span;
        self
    }

    /// What ends the claim when nobody releases it. Default: its lease.
    pub fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.terms_mut().lifetime = lifetime;
        self
    }

    /// Wants a fencing token with every grant, also where that costs extra: a session lock of a database then writes its
    /// counter, one durable commit per grant. Most engines give a token anyway, and this changes nothing.
    ///
    /// [`ErrorKind::Unsupported`] from `acquire` on an engine that has none.
    pub fn fenced(mut self) -> Self {
        self.terms_mut().fenced = true;
        self
    }

    /// Calls `tell` when [`Lock::acquire`] has to wait, and at every change of what is known of the wait: the holder, the
    /// position in the queue, an outage of the server, a quarantine after its restart. Not called for a lock that is
    /// free, nor by [`Lock::try_acquire`]. No request is sent for it: it hears what the engine answers anyway.
    ///
    /// `tell` runs in the task that acquires the lock, on that task's thread, and must not block. No mutex of this
    /// library is locked meanwhile. If it panics, the panic goes through `acquire`, which then leaves nothing behind.
    /// There is one function per lock; a second replaces the first.
    ///
    /// # Cancel safety
    /// When `acquire` is dropped, the calls end with it; there is none about the end of a wait.
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
    pub fn on_waiting(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.terms_mut().on_waiting = Some(OnWaiting::new(tell));
        self
    }

    /// Takes the lock if it is free.
    ///
    /// # Guarantees
    /// Never overtakes those who wait on a fair engine, and never waits for another holder. If nothing but an
    /// earlier claim of this client, whose release failed, is in the way, the release is repeated first, at once.
    ///
    /// # Cancel safety
    /// May be dropped at any time; a grant that crossed with the drop is given back in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a bad name or ttl, [`ErrorKind::Unsupported`] for what the engine cannot do, and
    /// whatever the engine says. That somebody else holds the lock is no error but `None`; unless a claim whose reply is
    /// missing could not be withdrawn: then it is [`ErrorKind::Busy`], with
    /// [`may_be_held_until`](Error::may_be_held_until). That an earlier claim of this client could not be given back is
    /// an error too, of the kind that its release failed with (most often [`ErrorKind::Unreachable`]).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let mine = client.lock("nightly").try_acquire().await?.expect("nobody else is here");
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

    /// Takes the lock, waiting for it as [`Lock::wait`] says.
    ///
    /// # Guarantees
    /// On return the lock is held by this guard and by no other that calls itself certain. On a fair engine, clients
    /// are served in the order in which they came.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the place in the queue is given up, and a grant that crossed with the drop is
    /// given back in the background.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when the wait limit passed, [`ErrorKind::Busy`] with [`Wait::Never`],
    /// [`ErrorKind::Invalid`] for a bad name or ttl, [`ErrorKind::Unsupported`] for what the engine cannot do, and
    /// whatever the engine says.
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

    /// The same, as one of several that have to be had by one time.
    pub(crate) async fn acquire_within(&self, wait: WaitUntil) -> Result<Guard> {
        match self.attempt(wait).await? {
            AcquireOutcome::Held(held) => Ok(Guard::new(held, self.core.clone())),
            AcquireOutcome::NotHeld { blocker, left } => Err(self.not_held(self.wait, blocker, left)),
        }
    }

    /// Until when to wait, counted from now.
    pub(crate) fn wait_until(&self) -> WaitUntil {
        match self.wait {
            Wait::Never => WaitUntil::Never,
            Wait::UpTo(limit) => WaitUntil::Moment(self.core.clock.now().after(limit)),
            Wait::Forever => WaitUntil::Forever,
        }
    }

    /// Does `work` while the lock is held. The work is dropped the moment the lock is lost.
    ///
    /// # Guarantees
    /// `Ok` only if nothing is known of a loss when the work is done: neither by this side's clock, nor by the engine that
    /// is given the lock back (one passed on to another task is not given back yet). The lock is given back before this
    /// returns, or in the background if the engine does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work first and then gives the lock back in the background.
    ///
    /// # Errors
    /// The work's own error; else, converted into the work's error type, those of [`Lock::acquire`], and
    /// [`ErrorKind::Lost`] if the lock was lost before its release.
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
        // A free lock is had without ever waiting: a loop of such calls must not keep its thread from other tasks.
        tokio::task::coop::consume_budget().await;
        core::acquire(&self.core, name, &self.terms, wait).await
    }

    fn checked_name(&self) -> Result<&LockName> {
        match &self.name {
            Ok(name) => Ok(name),
            Err(text) => Err(LockName::new(text).expect_err("it was refused before")),
        }
    }

    /// The name, if the engine can do what is asked of it.
    pub(crate) fn checked(&self) -> Result<&LockName> {
        let name = self.checked_name()?;
        self.check().map_err(|error| error.about(name))?;
        Ok(name)
    }

    /// What the engine cannot do is an error when asked, never a silent downgrade.
    fn check(&self) -> Result<()> {
        let (promised, terms) = (&self.core.promised, &self.terms);
        let engine = promised.engine;
        self.core.refuse_a_copy()?;
        if let Some(why) = self.wrong {
            return Err(Error::new(ErrorKind::Invalid, why));
        }
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
        if let Some(text) = &self.bad_owner {
            return OwnerId::new(text).map(drop);
        }
        if terms.owner.is_some() && !promised.takes_over {
            let message = format!("{engine} knows no owners; leave .owner() out");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if terms.fenced && promised.tokens.is_none() {
            let message = format!("{engine} has no fencing tokens at all; leave .fenced() out");
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
            let message = "only a lock that is held alone has an owner; leave .owner() out";
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
            // No more tasks ask the engine for permits than there are permits.
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
