//! One attempt to get a lock, as telemetry and its caller see it.

use std::fmt;
use std::sync::Arc;

use super::{Core, Outcome, Patience, Terms};
use crate::clock::Moment;
use crate::engine::Busy;
use crate::waiting::{Outage, Quarantine};
use crate::{Error, LockName, Result, Waiting};

/// The function that is told about waits.
#[derive(Clone)]
pub(crate) struct OnWaiting(Arc<dyn Fn(&Waiting) + Send + Sync>);

impl OnWaiting {
    pub(crate) fn new(tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for OnWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWaiting")
    }
}

/// Reports the wait of an attempt, and its end, also when it is dropped. It runs in the task that polls the attempt, and
/// no mutex is locked meanwhile.
pub(super) struct Watched<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) name: &'a LockName,
    pub(super) patience: Patience,
    /// `None` once the end was reported.
    began: Option<Moment>,
    /// The state that the caller was told last. Only with a function to tell it to.
    told: Option<Box<Waiting>>,
}

impl<'a> Watched<'a> {
    pub(super) fn new(core: &'a Arc<Core>, name: &'a LockName, patience: Patience) -> Self {
        Self { core, name, patience, began: Some(core.clock.now()), told: None }
    }

    pub(super) fn ended(&mut self, outcome: &Result<Outcome>) {
        if let Some(began) = self.began.take() {
            let waited = self.core.clock.now().since(began);
            self.core.telemetry.acquired(self.name, self.patience, waited, outcome);
        }
    }

    /// The task queues behind others of its client.
    pub(super) fn queued_locally(&mut self, terms: &Terms) {
        self.core.telemetry.waiting(self.name, None);
        self.tell(terms, |state| {
            state.outage = None;
            !std::mem::replace(&mut state.behind_local_task, true)
        });
    }

    /// The engine answered, and the attempt waits. `before` is its former answer, and `was_failing` whether a request failed
    /// since then.
    pub(super) fn busy(&mut self, terms: &Terms, busy: &Busy, before: Option<&Busy>, was_failing: bool) {
        if was_failing {
            self.core.telemetry.outage_over(self.name);
        }
        if before.is_none_or(|before| before.quarantine != busy.quarantine) {
            self.core.telemetry.waiting(self.name, Some(busy));
        }
        self.tell(terms, |state| {
            let mut changed = std::mem::take(&mut state.behind_local_task) || state.outage.take().is_some();
            let left = busy.again_in;
            let why = busy.quarantine.as_deref();
            changed |= state.quarantine.as_ref().map(|quarantine| &*quarantine.why) != why;
            state.quarantine = why.map(|why| Quarantine { left, why: why.to_owned() });
            changed |= busy.position != state.position;
            state.position = busy.position;
            // An engine need not name the holder in every answer.
            let holder = busy.holder.as_ref().map(|holder| &holder.note);
            match holder.filter(|note| why.is_none() && !note.as_str().is_empty()) {
                Some(holder) if state.holder.as_ref() != Some(holder) => {
                    state.holder = Some(holder.clone());
                    true
                }
                _ => changed,
            }
        });
    }

    /// A request failed, and the attempt goes on. `since` is when the first of them failed.
    pub(super) fn failing(&mut self, terms: &Terms, error: &Error, since: Moment, is_first: bool) {
        if is_first {
            self.core.telemetry.outage(self.name, error);
        }
        let lasts = self.core.clock.now().since(since);
        self.tell(terms, |state| {
            let outage = Outage { lasts, kind: error.kind(), message: error.message().to_owned() };
            state.behind_local_task = false;
            state.quarantine = None;
            let before = state.outage.replace(outage);
            before.is_none_or(|before| state.outage.as_ref().is_some_and(|now| now.message != before.message))
        });
    }

    /// Tells the caller, if this is its first news or a change.
    fn tell(&mut self, terms: &Terms, change: impl FnOnce(&mut Waiting) -> bool) {
        let Some(OnWaiting(tell)) = &terms.on_waiting else { return };
        if self.patience == Patience::None {
            return;
        }
        let is_first = self.told.is_none();
        let state = self.told.get_or_insert_with(|| Box::new(Waiting::new(self.name.clone())));
        if change(state) || is_first {
            state.waited = self.began.map_or(state.waited, |began| self.core.clock.now().since(began));
            tell(state);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.began.is_some() {
            self.core.telemetry.cancelled(self.name);
        }
    }
}
