//! A held lock, recorded.

use std::sync::Mutex;

use latchwork::clock::Moment;
use latchwork::{Guard, LockName, Loss, Result, Token};

use super::event::What;
use super::recorder::Recorder;
use super::tag::Tag;
use crate::drop_at_poll;

/// A guard whose end is recorded, whatever causes it.
#[must_use = "dropping a guard releases the lock"]
pub struct RecordedGuard {
    recorder: Recorder,
    tag: Tag,
    attempt: u64,
    name: LockName,
    guard: Option<Guard>,
    known: Mutex<RecordedLease>,
}

/// The state of the record.
struct RecordedLease {
    lease_end: Moment,
    lost: bool,
}

impl RecordedGuard {
    pub(super) fn new(recorder: Recorder, tag: Tag, attempt: u64, guard: Guard, lease_end: Moment) -> Self {
        let known = Mutex::new(RecordedLease { lease_end, lost: false });
        Self { recorder, tag, attempt, name: guard.name().clone(), guard: Some(guard), known }
    }

    fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("used until it is released")
    }

    /// As [`Held::token`](latchwork::Held::token).
    ///
    /// # Errors
    /// As [`Held::token`](latchwork::Held::token).
    pub fn token(&self) -> Result<Token> {
        self.guard().token()
    }

    /// As [`Held::lease_end`](latchwork::Held::lease_end).
    pub fn lease_end(&self) -> Moment {
        self.guard().lease_end()
    }

    /// As [`Held::is_certain`](latchwork::Held::is_certain). Records a loss that it finds, or the new end of
    /// the lease.
    pub fn is_certain(&self) -> bool {
        let certain = self.guard().is_certain();
        if certain {
            self.note_lease()
        } else {
            self.note_loss(What::FoundLost)
        }
        certain
    }

    /// As [`Held::lost`](latchwork::Held::lost). Records the report of the loss, if the call began before the
    /// loss.
    ///
    /// # Cancel safety
    /// May be dropped and called again; the end of listening is recorded.
    pub async fn lost(&self) -> Loss {
        if !self.is_certain() {
            return self.guard().lost().await;
        }
        self.note(What::Listening);
        let listener = LossListener(Some(self));
        let loss = self.guard().lost().await;
        listener.told();
        loss
    }

    /// As [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn release(mut self) -> Result<()> {
        self.is_certain();
        self.note(What::ReleaseInvoked);
        let guard = self.guard.take().expect("released once");
        let answer = guard.release().await;
        self.note(if answer.is_ok() { What::Released } else { What::ReleaseFailed });
        answer
    }

    /// Called while the guard is certain. The end of the lease is read first: it can only grow before the
    /// certainty check.
    fn note_lease(&self) {
        let lease_end = self.guard().lease_end();
        let mut known = self.known.lock().expect("no thread panicked while recording");
        if known.lease_end != lease_end && !known.lost && self.guard().is_certain() {
            known.lease_end = lease_end;
            self.note(What::Extended { lease_end });
        }
    }

    /// At most once: a lost guard stays lost.
    fn note_loss(&self, what: impl FnOnce(Loss) -> What) {
        let mut known = self.known.lock().expect("no thread panicked while recording");
        if !known.lost
            && let Some(loss) = drop_at_poll::now(self.guard().lost())
        {
            known.lost = true;
            self.note(what(loss));
        }
    }

    fn note(&self, what: What) {
        self.recorder.note(self.tag, self.attempt, Some(&self.name), what);
    }
}

impl Drop for RecordedGuard {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.is_certain();
            self.note(What::ReleaseInvoked);
        }
    }
}

impl std::fmt::Debug for RecordedGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedGuard").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// A pending wait for the loss. If it is dropped before the loss, the holder no longer listens.
struct LossListener<'a>(Option<&'a RecordedGuard>);

impl LossListener<'_> {
    fn told(mut self) {
        if let Some(guard) = self.0.take() {
            let lease_end = guard.lease_end();
            guard.note_loss(|loss| What::Told { loss, lease_end });
        }
    }
}

impl Drop for LossListener<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            let lease_end = guard.lease_end();
            guard.known.lock().expect("no thread panicked while recording").lease_end = lease_end;
            guard.note(What::Deaf { lease_end });
        }
    }
}
