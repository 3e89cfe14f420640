//! A claim that belongs to no task any more, and whose release is not answered yet, as other tasks of the
//! client see it.
//!
//! The name stays closed until the release is answered (C10). A task that only tries must not report this as
//! "held by another": it has the release repeated at once, and reports the error if it fails again.

use std::sync::Mutex;

use tokio::sync::Notify;

use super::ClaimRole;
use crate::clock::{Clock, Moment};
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, LockName};

/// A release that is not answered, or the claim before it. The queue of its name lists it until the name
/// opens.
pub(in crate::core) struct PendingRelease {
    pub(in crate::core) role: ClaimRole,
    /// Until when its claim may hold the lock.
    held_until: Moment,
    state: Mutex<ReleaseState>,
    /// Notified at every change of the state.
    changed: Notify,
    /// Ends the pause of the janitor.
    retry: Notify,
}

#[derive(Default)]
struct ReleaseState {
    failures: u64,
    /// The newest failure.
    failure: Option<Error>,
    /// Whether the janitor pauses, and no task has ended its pause yet.
    is_pausing: bool,
    is_over: bool,
}

impl PendingRelease {
    pub(in crate::core) fn new(role: ClaimRole, held_until: Moment) -> Self {
        let (state, changed, retry) = Default::default();
        Self { role, held_until, state, changed, retry }
    }

    /// A request is about to be sent.
    pub(in crate::core) fn sending(&self) {
        lock_ignoring_poison(&self.state).is_pausing = false;
    }

    pub(in crate::core) fn failed(&self, failure: &Error) {
        let mut state = lock_ignoring_poison(&self.state);
        state.failures += 1;
        state.failure = Some(failure.again());
        state.is_pausing = true;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The name is open again.
    pub(super) fn over(&self) {
        lock_ignoring_poison(&self.state).is_over = true;
        self.changed.notify_waiters();
    }

    /// Resolves when a task of this client needs the lock: the pause ends.
    pub(in crate::core) async fn retry_requested(&self) {
        self.retry.notified().await;
    }

    /// Has the release repeated at once, unless a request is under way. However many tasks call this, there
    /// is one request at a time.
    pub(super) fn retry_now(&self) {
        // Once for each pause: a second notification would end the next pause as well.
        if std::mem::take(&mut lock_ignoring_poison(&self.state).is_pausing) {
            self.retry.notify_one();
        }
    }

    /// Has the release repeated, and waits for the answer until `limit`. Returns whether the name is open.
    pub(in crate::core) async fn retry_until(&self, clock: Clock, limit: Moment) -> bool {
        let known = lock_ignoring_poison(&self.state).failures;
        self.retry_now();
        let answered = async {
            loop {
                let changed = self.changed.notified();
                {
                    let state = lock_ignoring_poison(&self.state);
                    if state.is_over {
                        return true;
                    }
                    if state.failures > known {
                        return false;
                    }
                }
                changed.await;
            }
        };
        crate::core::until(clock, limit, answered).await.unwrap_or(false)
    }

    /// Why `name` is closed. `unanswered`: the error if no request has failed, and the first is still under
    /// way.
    pub(in crate::core) fn error(
        &self,
        now: Moment,
        name: &LockName,
        unanswered: impl FnOnce() -> Error,
    ) -> Error {
        let error = match &lock_ignoring_poison(&self.state).failure {
            Some(failure) => {
                let message = format!(
                    "an earlier claim of this client is not given back yet, and its release is repeated: {}",
                    failure.message()
                );
                Error::new(failure.kind(), message)
            }
            None => unanswered(),
        };
        error.with_effect(Effect::Unknown).may_be_held(self.held_until, now).about(name)
    }
}
