//! The spans, events and metrics of the core, for `tracing` and `metrics`. Names of locks go into spans and
//! events, never into labels.
//!
//! The hot counters are registered once per client: a recorder must be installed before the client is made.

use std::future::Future;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use tracing::instrument::{Instrument, Instrumented};
use tracing::{debug, debug_span, info, warn};

use super::GrantKind;
use crate::engine::{Busy, Claim, Renewal, Revoke, Revoked};
use crate::{Error, LockName, Loss, Result, Token};

/// The counters of one client.
pub(crate) struct TelemetryRecorder {
    engine: &'static str,
    granted: Counter,
    passed: Counter,
    nested: Counter,
    wait: Histogram,
    hold: Histogram,
}

impl TelemetryRecorder {
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

    /// The engine warns about its server, or about its configuration.
    pub(crate) fn warned(&self, warning: &str) {
        warn!(engine = self.engine, "{warning}");
    }

    /// An attempt in its span.
    pub(crate) fn around<F: Future>(&self, name: &LockName, attempt: F) -> Instrumented<F> {
        attempt.instrument(debug_span!("acquire", lock = name.as_str(), engine = self.engine))
    }

    /// An attempt got the lock, after this long.
    pub(crate) fn acquired(&self, name: &LockName, waited: Duration, kind: GrantKind, token: Option<Token>) {
        match kind {
            GrantKind::Granted => self.granted.increment(1),
            GrantKind::Passed => self.passed.increment(1),
            GrantKind::Nested => self.nested.increment(1),
        }
        self.wait.record(waited);
        debug!(
            lock = name.as_str(),
            engine = self.engine,
            ?waited,
            token = token.map(|token| token.get()),
            "acquired"
        );
    }

    /// An attempt failed, after this long.
    pub(crate) fn acquire_failed(&self, name: &LockName, waited: Duration, error: &Error) {
        warn!(lock = name.as_str(), engine = self.engine, ?waited, %error, "acquire failed");
        self.not_acquired(name, waited, "failed");
    }

    /// An attempt ended without the lock, after this long.
    pub(crate) fn not_acquired(&self, name: &LockName, waited: Duration, outcome: &'static str) {
        counter!("latchwork_acquires_total", "engine" => self.engine, "outcome" => outcome).increment(1);
        debug!(lock = name.as_str(), engine = self.engine, ?waited, outcome, "not acquired");
    }

    /// An attempt waits. `busy` is the engine's answer; without it, the attempt waits for another task of its
    /// client.
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

    /// An attempt was dropped.
    pub(crate) fn cancelled(&self, name: &LockName) {
        counter!("latchwork_acquires_total", "engine" => self.engine, "outcome" => "cancelled").increment(1);
        debug!(lock = name.as_str(), engine = self.engine, "acquire cancelled");
    }

    /// A guard was released or dropped, after this long.
    pub(crate) fn held(&self, claim: &Claim, held: Duration) {
        self.hold.record(held);
        debug!(lock = claim.name.as_str(), engine = self.engine, ?held, "released");
    }

    /// An operator revoked a lock, or tried to.
    pub(crate) fn revoked(&self, name: &LockName, how: Revoke, reason: &str, revoked: &Result<Revoked>) {
        let (lock, how) = (name.as_str(), how.label());
        match revoked {
            Ok(Revoked::Done) => warn!(lock, engine = self.engine, how, reason, "revoked"),
            Ok(Revoked::NotHeld) => debug!(lock, engine = self.engine, how, reason, "nothing to revoke"),
            Err(error) => warn!(lock, engine = self.engine, how, reason, %error, "revoke failed"),
        }
    }

    /// A release that was repeated was answered, or its lease is over.
    pub(crate) fn release_retried(&self, claim: &Claim, outcome: &'static str) {
        counter!("latchwork_release_retries_total", "engine" => self.engine, "outcome" => outcome)
            .increment(1);
        debug!(lock = claim.name.as_str(), engine = self.engine, outcome, "release retried");
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
