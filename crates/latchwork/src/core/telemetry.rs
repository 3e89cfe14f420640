//! What the core tells `tracing` and `metrics`. Names of locks go into spans and events, never into labels.
//!
//! The hot counters are registered once per client: a recorder must be installed before the client is made.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use tracing::instrument::{Instrument, Instrumented};
use tracing::{debug, debug_span, info, warn};

use super::{Grip, Outcome, Patience};
use crate::engine::{Busy, Claim, Renewal, Revoke, Revoked};
use crate::{Error, LockName, Loss, Result};

/// One client's counters.
pub(crate) struct Telemetry {
    engine: &'static str,
    granted: Counter,
    passed: Counter,
    nested: Counter,
    wait: Histogram,
    hold: Histogram,
}

impl Telemetry {
    pub(crate) fn new(engine: &'static str) -> Self {
        let acquires =
            |outcome| counter!("latchwork_acquires_total", "engine" => engine, "outcome" => outcome);
        Self {
            engine,
            granted: acquires("granted"),
            passed: acquires("passed"),
            nested: acquires("nested"),
            wait: histogram!("latchwork_wait_seconds", "engine" => engine),
            hold: histogram!("latchwork_hold_seconds", "engine" => engine),
        }
    }

    /// The engine has something to say of its server, or of how it is used.
    pub(crate) fn warned(&self, warning: &str) {
        warn!(engine = self.engine, "{warning}");
    }

    /// An attempt in its span.
    pub(crate) fn around<F: Future>(&self, name: &LockName, attempt: F) -> Instrumented<F> {
        attempt.instrument(debug_span!("acquire", lock = name.as_str(), engine = self.engine))
    }

    /// An attempt ended, after this long.
    pub(crate) fn acquired(
        &self,
        name: &LockName,
        patience: Patience,
        waited: Duration,
        outcome: &Result<Outcome>,
    ) {
        let lock = name.as_str();
        let outcome = match outcome {
            Ok(Outcome::Held(grip)) => {
                match grip {
                    Grip::Shared(shared) if Arc::strong_count(shared) > 1 => self.nested.increment(1),
                    _ if grip.pass() == 0 => self.granted.increment(1),
                    _ => self.passed.increment(1),
                }
                self.wait.record(waited);
                debug!(
                    lock,
                    engine = self.engine,
                    ?waited,
                    token = grip.token().map(|token| token.get()),
                    "acquired"
                );
                return;
            }
            Ok(Outcome::NotHeld { .. }) if patience == Patience::None => "busy",
            Ok(Outcome::NotHeld { .. }) => "timed_out",
            Err(error) => {
                warn!(lock, engine = self.engine, ?waited, %error, "acquire failed");
                "failed"
            }
        };
        counter!("latchwork_acquires_total", "engine" => self.engine, "outcome" => outcome).increment(1);
        debug!(lock, engine = self.engine, ?waited, outcome, "not acquired");
    }

    /// An attempt waits, and the engine's answer says for whom; without an answer, for another task of its client.
    pub(crate) fn waiting(&self, name: &LockName, busy: Option<&Busy>) {
        let (lock, engine) = (name.as_str(), self.engine);
        match busy {
            None => debug!(lock, engine, "waiting for another task of this client"),
            Some(Busy { quarantine: Some(why), again_in, .. }) => {
                info!(lock, engine, left = ?again_in, "waiting for the end of a quarantine: {why}");
            }
            Some(busy) => {
                let holder = busy.holder.as_ref().map(|holder| holder.note.as_str());
                debug!(lock, engine, holder, position = busy.position, "waiting");
            }
        }
    }

    /// The requests of an attempt that waits begin to fail.
    pub(crate) fn outage(&self, name: &LockName, error: &Error) {
        warn!(lock = name.as_str(), engine = self.engine, %error, "waiting for a server that fails");
    }

    /// The engine answers again.
    pub(crate) fn outage_over(&self, name: &LockName) {
        info!(lock = name.as_str(), engine = self.engine, "the server answers again");
    }

    /// Nobody wanted the attempt any more.
    pub(crate) fn cancelled(&self, name: &LockName) {
        counter!("latchwork_acquires_total", "engine" => self.engine, "outcome" => "cancelled").increment(1);
        debug!(lock = name.as_str(), engine = self.engine, "acquire cancelled");
    }

    /// A guard let go, or was dropped, after this long.
    pub(crate) fn held(&self, claim: &Claim, held: Duration) {
        self.hold.record(held);
        debug!(lock = claim.name.as_str(), engine = self.engine, ?held, "let go");
    }

    /// An operator took a lock away, or tried to.
    pub(crate) fn revoked(&self, name: &LockName, how: Revoke, reason: &str, revoked: &Result<Revoked>) {
        let (lock, how) = (name.as_str(), how.label());
        match revoked {
            Ok(Revoked::Done) => warn!(lock, engine = self.engine, how, reason, "revoked"),
            Ok(Revoked::NotHeld) => debug!(lock, engine = self.engine, how, reason, "nothing to revoke"),
            Err(error) => warn!(lock, engine = self.engine, how, reason, %error, "revoke failed"),
        }
    }

    /// A claim that could not be given back at once was given back after all, or its lease is over.
    pub(crate) fn cleaned_up(&self, claim: &Claim, outcome: &'static str) {
        counter!("latchwork_janitor_total", "engine" => self.engine, "outcome" => outcome).increment(1);
        debug!(lock = claim.name.as_str(), engine = self.engine, outcome, "janitor");
    }
}

/// A renewal was answered, or was not.
pub(crate) fn renewed(claim: &Claim, engine: &'static str, answer: Option<&Renewal>) {
    let outcome = match answer {
        Some(Renewal::Kept(_)) => "kept",
        Some(Renewal::Lost(_)) => "refused",
        None => {
            warn!(lock = claim.name.as_str(), engine, "renewal failed");
            "failed"
        }
    };
    counter!("latchwork_renewals_total", "engine" => engine, "outcome" => outcome).increment(1);
}

/// A held lock was lost.
pub(crate) fn lost(claim: &Claim, engine: &'static str, why: Loss) {
    counter!("latchwork_losses_total", "engine" => engine, "reason" => why.label()).increment(1);
    warn!(lock = claim.name.as_str(), engine, reason = why.label(), "lost: {why}");
}
