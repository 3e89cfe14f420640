//! A lock, described and not yet held.

use std::sync::Arc;
use std::time::Duration;

use crate::core::{self, Core, Outcome, Patience, Terms, defaults};
use crate::engine::{Lifetime, Mode, Note};
use crate::{Error, ErrorKind, Guard, LockName, Result};

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
    core: Arc<Core>,
    name: String,
    wait: Wait,
    terms: Terms,
}

impl Lock {
    pub(crate) fn new(core: Arc<Core>, name: &str, note: Note) -> Self {
        let terms = Terms {
            mode: Mode::Exclusive,
            ttl: defaults::TTL,
            wait_lease: Duration::ZERO,
            stop_margin: None,
            pass_for: defaults::PASS_FOR,
            lifetime: Lifetime::Lease,
            note,
        };
        Self { core, name: name.to_owned(), wait: Wait::Forever, terms }
    }

    /// How long a holder that vanished may block others. Default 30 s; renewed while the guard lives.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl;
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
        self.terms.stop_margin = Some(margin);
        self
    }

    /// Whether a released lock may go straight to the next waiting task of this client, with a greater token and without
    /// asking the engine. Default: yes, for [`Lock::pass_for`].
    pub fn local_handoff(self, on: bool) -> Self {
        self.pass_for(if on { defaults::PASS_FOR } else { Duration::ZERO })
    }

    /// For how long a lock may go from task to task of this client, before other clients get their turn. Default 5 ms;
    /// more buys little throughput for much waiting elsewhere.
    pub fn pass_for(mut self, span: Duration) -> Self {
        self.terms.pass_for = span;
        self
    }

    /// What ends the claim when nobody releases it. Default: its lease.
    pub fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.terms.lifetime = lifetime;
        self
    }

    /// Takes the lock if it is free.
    ///
    /// # Guarantees
    /// Never overtakes those who wait on a fair engine, and never waits for another holder.
    ///
    /// # Cancel safety
    /// May be dropped at any time; a grant that crossed with the drop is given back in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a bad name or ttl, [`ErrorKind::Unsupported`] for what the engine cannot do, and
    /// whatever the engine says. That somebody else holds the lock is no error but `None`.
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
        Ok(match self.attempt(Wait::Never).await? {
            Outcome::Held(tenure) => Some(Guard::new(tenure)),
            Outcome::NotHeld(_) => None,
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
        match self.attempt(self.wait).await? {
            Outcome::Held(tenure) => Ok(Guard::new(tenure)),
            Outcome::NotHeld(holder) => Err(self.not_held(holder)),
        }
    }

    async fn attempt(&self, wait: Wait) -> Result<Outcome> {
        let name = LockName::new(&self.name)?;
        self.check().map_err(|error| error.about(&name))?;
        let patience = match wait {
            Wait::Never => Patience::None,
            Wait::UpTo(limit) => Patience::Until(self.core.clock.now().after(limit)),
            Wait::Forever => Patience::Endless,
        };
        // A free lock is had without ever waiting: a loop of such calls must not keep its thread from other tasks.
        tokio::task::coop::consume_budget().await;
        let mut terms = self.terms.clone();
        if wait != Wait::Never {
            terms.wait_lease = defaults::WAIT_LEASE.min(terms.ttl);
        }
        core::acquire(&self.core, &name, &terms, patience).await
    }

    /// What the engine cannot do is an error when asked, never a silent downgrade.
    fn check(&self) -> Result<()> {
        let (promised, terms) = (self.core.engine.guarantees(), &self.terms);
        let engine = promised.engine;
        if terms.ttl < promised.min_ttl || terms.ttl > promised.max_ttl {
            let (ttl, min, max) = (terms.ttl, promised.min_ttl, promised.max_ttl);
            let message = format!("a ttl of {ttl:?} is out of range; {engine} takes {min:?} to {max:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if terms.lifetime == Lifetime::Session && !promised.outlives_wrapper {
            let message = format!("{engine} cannot bind a claim to its session alone; use a lease");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    fn not_held(&self, holder: Option<Note>) -> Error {
        let by = holder.filter(|note| !note.as_str().is_empty());
        let by = by.map_or_else(String::new, |note| format!(" by {}", note.as_str()));
        let error = match self.wait {
            Wait::UpTo(limit) => Error::new(
                ErrorKind::TimedOut,
                format!("still held{by} after waiting {limit:?}; raise the wait limit"),
            ),
            _ => Error::new(ErrorKind::Busy, format!("held{by}")),
        };
        match LockName::new(&self.name) {
            Ok(name) => error.about(&name),
            Err(invalid) => invalid,
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
