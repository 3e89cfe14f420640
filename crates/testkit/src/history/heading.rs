//! The heading under which an attempt is recorded, and the attempt until it is answered.

use std::time::Duration;

use latchwork::engine::Mode;
use latchwork::{Effect, Error, ErrorKind, Guard, Held, LockName};

use super::event::{GaveUp, What};
use super::recorded_guard::RecordedGuard;
use super::recorder::Recorder;
use super::tag::Tag;

/// The default ttl.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The recorder, client, lock and mode of attempts.
#[derive(Clone)]
pub(super) struct Heading {
    pub(super) recorder: Recorder,
    pub(super) tag: Tag,
    pub(super) name: LockName,
    pub(super) mode: Mode,
    pub(super) ttl: Duration,
    /// The number of a signed lock's only attempt.
    number: Option<u64>,
}

impl Heading {
    pub(super) fn new(recorder: Recorder, tag: Tag, name: LockName, mode: Mode) -> Self {
        Self { recorder, tag, name, mode, ttl: DEFAULT_TTL, number: None }
    }

    /// Signs the heading with the number of its only attempt.
    pub(super) fn signed(mut self) -> Self {
        self.number = Some(self.recorder.next_attempt());
        self
    }

    /// The text that [`Heading::read_signature`] parses.
    pub(super) fn signature(&self) -> String {
        format!("client {} attempt {}", self.tag.client, self.number.unwrap_or_default())
    }

    /// The client and the attempt.
    pub(super) fn read_signature(text: &str) -> Option<(u32, u64)> {
        let (client, attempt) = text.strip_prefix("client ")?.split_once(" attempt ")?;
        Some((client.parse().ok()?, attempt.parse().ok()?))
    }

    /// Records that an attempt is about to start.
    pub(super) fn begin(&self) -> Pending<'_> {
        let attempt = self.number.unwrap_or_else(|| self.recorder.next_attempt());
        let pending = Pending { heading: self, attempt, answered: false };
        pending.note(What::Invoked(self.mode));
        pending
    }

    pub(super) fn note(&self, attempt: u64, what: What) {
        self.recorder.note(self.tag, attempt, Some(&self.name), what);
    }
}

/// An attempt that was not answered yet. When dropped, it is recorded as cancelled. It is created before the
/// call that it covers, and so dropped after it.
pub(super) struct Pending<'a> {
    heading: &'a Heading,
    attempt: u64,
    answered: bool,
}

impl Pending<'_> {
    fn note(&self, what: What) {
        self.heading.note(self.attempt, what);
    }

    pub(super) fn answered(mut self, what: What) {
        self.answered = true;
        self.note(what);
    }

    pub(super) fn acquired(self, guard: Guard) -> RecordedGuard {
        let Heading { recorder, tag, .. } = self.heading.clone();
        let (attempt, lease_end) = (self.attempt, guard.lease_end());
        self.holds(&guard);
        RecordedGuard::new(recorder, tag, attempt, guard, lease_end)
    }

    /// Records that the attempt led to a hold, and returns the attempt's number.
    pub(super) fn holds(self, held: &Held) -> u64 {
        let (attempt, token) = (self.attempt, held.token().ok().map(|token| token.get()));
        self.answered(What::Acquired { token, lease_end: held.lease_end() });
        attempt
    }

    pub(super) fn failed(self, error: &Error) {
        let at_the_longest = || self.heading.recorder.clock().now().after(self.heading.ttl);
        let held_until = error.may_be_held_until().unwrap_or_else(at_the_longest);
        self.answered(match (error.kind(), error.effect()) {
            (_, Effect::Unknown) => What::Unknown { held_until },
            (ErrorKind::Busy, _) => What::GaveUp(GaveUp::Busy),
            (ErrorKind::TimedOut, _) => What::GaveUp(GaveUp::TimedOut),
            (_, Effect::None) => What::Failed,
        });
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let held_until = self.heading.recorder.clock().now().after(self.heading.ttl);
            self.note(What::Cancelled { held_until });
        }
    }
}
