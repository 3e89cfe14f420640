//! The state of a wait, from the library's callback to the reporter.

use std::sync::{Mutex, PoisonError};

use latchwork::Waiting;
use latchwork::clock::{Clock, Moment};
use latchwork::engine::Note;
use tokio::sync::Notify;

use crate::failure::Failure;

/// The newest state of a wait: published by the library's callback, read by the reporter.
#[derive(Default)]
pub(crate) struct WaitUpdates {
    latest: Mutex<WaitState>,
    changed: Notify,
}

/// The state of a wait at one moment.
#[derive(Clone, Default)]
pub(super) struct WaitState {
    /// Whether a reply or an error has arrived.
    pub(super) is_answered: bool,
    pub(super) holder: Option<Note>,
    pub(super) position: Option<u32>,
    pub(super) outage: Option<OngoingOutage>,
    /// When the quarantine ends, and its reason.
    pub(super) quarantine: Option<(Moment, String)>,
}

#[derive(Clone)]
pub(super) struct OngoingOutage {
    pub(super) since: Moment,
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl WaitState {
    pub(super) fn is_faulty(&self) -> bool {
        self.outage.is_some() || self.quarantine.is_some()
    }

    pub(super) fn has_same_faults(&self, other: &Self) -> bool {
        (self.outage.is_some(), self.quarantine.is_some())
            == (other.outage.is_some(), other.quarantine.is_some())
    }
}

impl WaitUpdates {
    /// The library reports the state of the wait.
    pub(crate) fn publish(&self, state: &Waiting) {
        let now = Clock::boottime().now();
        self.replace(WaitState {
            is_answered: true,
            holder: state.holder.clone(),
            position: state.position,
            outage: state.outage.as_ref().map(|outage| OngoingOutage {
                since: now.before(outage.lasts),
                kind: Failure::label(outage.kind),
                message: outage.message.clone(),
            }),
            quarantine: state.quarantine.as_ref().map(|one| (now.after(one.left), one.why.clone())),
        });
    }

    /// Connection attempts have failed since that moment.
    pub(crate) fn connection_failed(&self, failure: &Failure, since: Moment) {
        let (kind, message) = (failure.kind(), failure.message().unwrap_or_default().to_owned());
        self.replace(WaitState {
            is_answered: true,
            outage: Some(OngoingOutage { since, kind, message }),
            ..WaitState::default()
        });
    }

    pub(super) fn replace(&self, state: WaitState) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_one();
    }

    pub(super) fn latest(&self) -> WaitState {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a change. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
