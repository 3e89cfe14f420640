//! A view of a held lock.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::Moment;
use crate::core::{HeldClaim, LeaseState, defaults};
use crate::error::Subject;
use crate::{Error, ErrorKind, LockName, Loss, Result, Token};

/// A view of a held lock, for the work that it protects. Cheap to clone. It does not keep the lock: once the
/// [`Guard`](crate::Guard) is released, the view reports that the lock is not held.
#[derive(Clone)]
pub struct Held {
    lease: Arc<LeaseState>,
    /// The number of the guard among those that the claim was passed to.
    turn: u8,
    /// For a guard that may hold beside others of its owner: dead once that guard is released.
    own: Option<Weak<()>>,
    token: Option<Token>,
    /// The noun by which errors name it.
    subject: Subject,
}

impl Held {
    pub(crate) fn new(claim: &HeldClaim, own: Option<Weak<()>>) -> Self {
        let (lease, turn, token) = (claim.lease().clone(), claim.pass(), claim.token());
        Self { lease, turn, own, token, subject: Subject::Lock }
    }

    /// Makes the errors of this view name an election.
    pub(crate) fn of_election(self) -> Self {
        Self { subject: Subject::Election, ..self }
    }

    /// The error, naming this lock or its election.
    pub(crate) fn about(&self, error: Error) -> Error {
        error.about_a(self.subject, self.name())
    }

    /// Whether the guard of this view was released.
    fn is_released(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.strong_count() == 0) || !self.lease.is_turn(self.turn)
    }

    /// The lock.
    pub fn name(&self) -> &LockName {
        &self.lease.claim.name
    }

    /// The fencing token: greater than the tokens of all earlier grants of this lock. Send it with every
    /// write, and let the store refuse a token lower than the greatest it has seen.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on an engine that has no tokens, or has them only with
    /// [`Lock::fenced`](crate::Lock::fenced).
    pub fn token(&self) -> Result<Token> {
        self.token.ok_or_else(|| {
            let hint = if self.lease.tokens_on_request { " unless the lock is .fenced()" } else { "" };
            let message = format!("{} has no fencing tokens{hint}", self.lease.engine);
            self.about(Error::new(ErrorKind::Unsupported, message))
        })
    }

    /// Whether the lock is held for certain at this instant. Reads the clock at every call.
    ///
    /// It does not protect a write that follows the check, because any process can be paused between the two.
    /// Only a store that checks the token does.
    pub fn is_certain(&self) -> bool {
        !self.is_released() && self.loss().is_none()
    }

    /// The reason of the loss, if the lock is lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.lease.loss()
    }

    pub(crate) fn lost_error(&self, why: Loss) -> Error {
        self.about(Error::new(ErrorKind::Lost, format!("it was lost before its release: {why}")))
    }

    /// The rest of the lease if no further renewal succeeds; zero if the lock is not held for certain.
    pub fn remaining(&self) -> Duration {
        if !self.is_certain() {
            return Duration::ZERO;
        }
        self.lease.read(|lease, now| lease.deadline().since(now))
    }

    /// The end of the lease if no further renewal succeeds. After a loss it may lie in the past.
    pub fn lease_end(&self) -> Moment {
        self.lease.read(|lease, _| lease.deadline())
    }

    /// The latest moment at which the lease ends on the server. That is later than [`Held::lease_end`], on
    /// which this client can rely: the server counts from the moment at which it carries out a renewal, and
    /// one may be in flight.
    pub(crate) fn server_lease_over(&self, now: Moment) -> Moment {
        let claim = &self.lease.claim;
        claim.lease_over(now.after(claim.ttl / defaults::RENEW_WITHIN + defaults::LATE))
    }

    /// Resolves when the lock is lost, before its lease can run out. A release does not resolve it.
    ///
    /// # Guarantees
    /// A thread of its own wakes it, on a clock that advances while the machine sleeps. It depends neither on
    /// the keeper nor on a timer of this runtime.
    ///
    /// # Cancel safety
    /// May be dropped at any time, and called again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let guard = client.lock("report").acquire().await?;
    /// tokio::select! {
    ///     loss = guard.lost() => eprintln!("stopped: {loss}"),
    ///     () = async { /* the work */ } => guard.release().await?,
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> Loss {
        let loss = self.lease.lost(self.turn).await;
        // Checked after the loss was found: a loss after the release does not concern this guard.
        if self.is_released() { std::future::pending().await } else { loss }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", self.name())
            .field("token", &self.token)
            .field("certain", &self.is_certain())
            .finish()
    }
}
