//! A server that forgets its locks when it restarts must grant none before the last of them has ended.

use std::time::Duration;

use crate::Result;
use crate::clock::{Clock, Moment};
use crate::engine::url_options::{choice, span};
use crate::engine::{Busy, ClaimId, ClaimState, EngineUrl, Note, Verdict};

/// When a server that forgets on restart may grant again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quarantine {
    /// Not before the longest ttl has passed, for a client that saw the restart itself.
    Auto,
    /// Not before the longest ttl has passed, for every client.
    Strict,
    /// At once.
    Off,
}

impl Quarantine {
    /// What `quarantine=` says, and `max-ttl=`, the longest ttl: nobody can wait out leases without end.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), naming the option and what it takes.
    pub(super) fn of(url: &EngineUrl) -> Result<(Self, Duration)> {
        let words = [("auto", Self::Auto), ("strict", Self::Strict), ("off", Self::Off)];
        let quarantine = choice(url, "quarantine", &words)?;
        let longest = Duration::from_secs(if quarantine == Self::Off { 24 * 60 * 60 } else { 60 });
        Ok((quarantine, span(url, "max-ttl")?.unwrap_or(longest)))
    }
}

/// What a client knows of the lives of one server.
#[derive(Default)]
pub(super) struct Lives {
    /// What tells the newest life that was met from every other.
    newest: Option<String>,
    /// Until when the server must not be asked for locks, because it may have forgotten some.
    quarantined: Option<Moment>,
}

impl Lives {
    /// The server was met in this life, which has lasted for `uptime` at the least. `forgets`: whether what it was told in
    /// an earlier one is lost.
    pub(super) fn met(
        &mut self,
        life: &str,
        uptime: Duration,
        forgets: bool,
        (quarantine, max_ttl): (Quarantine, Duration),
    ) {
        let was_restarted = self.newest.as_ref().is_some_and(|known| known != life);
        self.newest = Some(life.to_owned());
        let left = max_ttl.saturating_sub(uptime);
        let applies = match quarantine {
            Quarantine::Off => false,
            Quarantine::Strict => true,
            Quarantine::Auto => was_restarted && forgets,
        };
        if applies && !left.is_zero() {
            self.quarantined = Some(Clock::boottime().now().after(left));
        }
    }

    /// How long the server must not be asked for locks yet.
    pub(super) fn quarantine(&mut self) -> Option<Duration> {
        let (until, now) = (self.quarantined?, Clock::boottime().now());
        if until <= now {
            self.quarantined = None;
            return None;
        }
        Some(until.since(now))
    }
}

/// A server that may have forgotten locks is not asked for any.
pub(super) fn quarantined(server: &str, left: Duration) -> Verdict {
    waits_out(server, "it started less than max-ttl ago and may have forgotten who holds", left)
}

/// The answer while no locks are granted.
pub(super) fn waits_out(server: &str, why: &str, left: Duration) -> Verdict {
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
