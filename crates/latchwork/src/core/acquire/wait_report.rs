//! The reports about one attempt to get a lock, to telemetry and to its caller.

use std::sync::Arc;

use super::AcquireOutcome;
use crate::clock::Moment;
use crate::core::Core;
use crate::core::telemetry::GrantKind;
use crate::core::terms::{LockTerms, WaitUntil};
use crate::engine::Busy;
use crate::waiting::{Outage, Quarantine};
use crate::{Error, LockName, Result, Waiting};

/// Reports the wait of an attempt, and its end, also when it is dropped. It runs in the task that polls the
/// attempt, and no mutex is locked meanwhile.
pub(super) struct WaitReport<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) name: &'a LockName,
    pub(super) wait: WaitUntil,
    /// `None` once the end was reported.
    began: Option<Moment>,
    /// The state that was last reported to the caller. Only with a function to call.
    reported: Option<Box<Waiting>>,
}

impl<'a> WaitReport<'a> {
    pub(super) fn new(core: &'a Arc<Core>, name: &'a LockName, wait: WaitUntil) -> Self {
        Self { core, name, wait, began: Some(core.clock.now()), reported: None }
    }

    pub(super) fn ended(&mut self, outcome: &Result<AcquireOutcome>) {
        if let Some(began) = self.began.take() {
            let waited = self.core.clock.now().since(began);
            let (telemetry, name) = (&self.core.telemetry, self.name);
            match outcome {
                Ok(AcquireOutcome::Held(held)) => {
                    let kind = match held.pass() {
                        _ if held.has_others() => GrantKind::Nested,
                        0 => GrantKind::Granted,
                        _ => GrantKind::Passed,
                    };
                    telemetry.acquired(name, waited, kind, held.token());
                }
                Ok(_) if self.wait == WaitUntil::Never => telemetry.not_acquired(name, waited, "busy"),
                Ok(_) => telemetry.not_acquired(name, waited, "timed_out"),
                Err(error) => telemetry.acquire_failed(name, waited, error),
            }
        }
    }

    /// The task waits in the queue of its client.
    pub(super) fn queued_locally(&mut self, terms: &LockTerms) {
        self.core.telemetry.waiting(self.name, None);
        self.report(terms, |state| {
            state.outage = None;
            !std::mem::replace(&mut state.behind_local_task, true)
        });
    }

    /// The engine answered, and the attempt waits. `before` is its former answer, and `was_failing` whether a
    /// request failed since then.
    pub(super) fn busy(&mut self, terms: &LockTerms, busy: &Busy, before: Option<&Busy>, was_failing: bool) {
        if was_failing {
            self.core.telemetry.outage_over(self.name);
        }
        if before.is_none_or(|before| before.quarantine != busy.quarantine) {
            self.core.telemetry.waiting(self.name, Some(busy));
        }
        self.report(terms, |state| {
            let mut changed = std::mem::take(&mut state.behind_local_task) || state.outage.take().is_some();
            let left = busy.again_in;
            let why = busy.quarantine.as_deref();
            changed |= state.quarantine.as_ref().map(|quarantine| &*quarantine.why) != why;
            state.quarantine = why.map(|why| Quarantine { left, why: why.to_owned() });
            changed |= busy.position != state.position;
            state.position = busy.position;
            // An engine may leave the holder out of an answer.
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
    pub(super) fn failing(&mut self, terms: &LockTerms, error: &Error, since: Moment, is_first: bool) {
        if is_first {
            self.core.telemetry.outage(self.name, error);
        }
        let lasts = self.core.clock.now().since(since);
        self.report(terms, |state| {
            let outage = Outage { lasts, kind: error.kind(), message: error.message().to_owned() };
            state.behind_local_task = false;
            state.quarantine = None;
            let before = state.outage.replace(outage);
            before.is_none_or(|before| state.outage.as_ref().is_some_and(|now| now.message != before.message))
        });
    }

    /// Reports to the caller if this is the first report or a change.
    fn report(&mut self, terms: &LockTerms, change: impl FnOnce(&mut Waiting) -> bool) {
        let Some(on_waiting) = &terms.on_waiting else { return };
        if self.wait == WaitUntil::Never {
            return;
        }
        let is_first = self.reported.is_none();
        let state = self.reported.get_or_insert_with(|| Box::new(Waiting::new(self.name.clone())));
        if change(state) || is_first {
            state.waited = self.began.map_or(state.waited, |began| self.core.clock.now().since(began));
            on_waiting.call(state);
        }
    }
}

impl Drop for WaitReport<'_> {
    fn drop(&mut self) {
        if self.began.is_some() {
            self.core.telemetry.cancelled(self.name);
        }
    }
}
