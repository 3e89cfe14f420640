//! After a restart, a server that forgot its locks must grant none until the last forgotten lease has ended.

use std::time::Duration;

use crate::Result;
use crate::clock::{Clock, Moment};
use crate::engine::url_options::{choice, span};
use crate::engine::{Busy, ClaimId, ClaimState, EngineUrl, Note, Verdict};

/// The time at which a restarted server may grant locks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuarantinePolicy {
    /// After the longest ttl, for a client that noticed the restart.
    Auto,
    /// After the longest ttl, for every client.
    Strict,
    /// Immediately.
    Off,
}

impl QuarantinePolicy {
    /// The options `quarantine=` and `max-ttl=`. A longest ttl is needed, because an unlimited lease cannot
    /// be waited out.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option and its values.
    pub(super) fn of(url: &EngineUrl) -> Result<(Self, Duration)> {
        let words = [("auto", Self::Auto), ("strict", Self::Strict), ("off", Self::Off)];
        let quarantine = choice(url, "quarantine", &words)?;
        let longest = Duration::from_secs(if quarantine == Self::Off { 24 * 60 * 60 } else { 60 });
        Ok((quarantine, span(url, "max-ttl")?.unwrap_or(longest)))
    }
}

/// Notices restarts of one server.
#[derive(Default)]
pub(super) struct RestartTracker {
    /// The identifier of the newest run of the server process.
    run_id: Option<String>,
    /// No claim is sent before this time, because the server may have forgotten locks.
    quarantined_until: Option<Moment>,
}

impl RestartTracker {
    /// Records a connection to the server, whose process `run_id` has run for at least `uptime`. `forgets`:
    /// whether the locks of an earlier run are lost.
    pub(super) fn record_run(
        &mut self,
        run_id: &str,
        uptime: Duration,
        forgets: bool,
        (quarantine, max_ttl): (QuarantinePolicy, Duration),
    ) {
        let was_restarted = self.run_id.as_ref().is_some_and(|known| known != run_id);
        self.run_id = Some(run_id.to_owned());
        let left = max_ttl.saturating_sub(uptime);
        let applies = match quarantine {
            QuarantinePolicy::Off => false,
            QuarantinePolicy::Strict => true,
            QuarantinePolicy::Auto => was_restarted && forgets,
        };
        if applies && !left.is_zero() {
            self.quarantined_until = Some(Clock::boottime().now().after(left));
        }
    }

    /// The rest of the quarantine; `None` if the server may grant locks.
    pub(super) fn quarantine(&mut self) -> Option<Duration> {
        let (until, now) = (self.quarantined_until?, Clock::boottime().now());
        if until <= now {
            self.quarantined_until = None;
            return None;
        }
        Some(until.since(now))
    }
}

/// The verdict for a claim that is not sent, because the server may have forgotten locks.
pub(super) fn quarantined(server: &str, left: Duration) -> Verdict {
    quarantined_because(server, "it started less than max-ttl ago and may have forgotten who holds", left)
}

/// The verdict for a claim during a quarantine.
pub(super) fn quarantined_because(server: &str, why: &str, left: Duration) -> Verdict {
    let mut holder = ClaimState::new(ClaimId::from_bytes([0; 16]));
    holder.note = Note::new(&format!(
        "the quarantine of {server}: {why}; {:.0} s left (quarantine=off in the URL skips it)",
        left.as_secs_f64()
    ));
    holder.expires_in = Some(left);
    let mut busy = Busy::new(left);
    busy.holder = Some(holder);
    busy.quarantine = Some(format!("{server}: {why}; quarantine=off in the URL skips this").into());
    Verdict::Busy(busy)
}
