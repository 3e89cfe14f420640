//! The state of a wait for a lock, as its caller sees it.

use std::time::Duration;

use crate::engine::Note;
use crate::{ErrorKind, LockName};

/// The state of a wait for a lock, passed to the function of [`Lock::on_waiting`](crate::Lock::on_waiting).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// The lock.
    pub lock: LockName,
    /// The time since `acquire` was called.
    pub waited: Duration,
    /// The holder that the engine named last. `None` if it has not named one.
    pub holder: Option<Note>,
    /// The number of claims ahead of this one, the holders included. `None` on an engine that does not count
    /// them.
    pub position: Option<u32>,
    /// Whether another task of this client holds the lock, or waits for it at the head of this client's
    /// queue. No claim was sent for this task then.
    pub behind_local_task: bool,
    /// Set while requests fail. The client repeats them.
    pub outage: Option<Outage>,
    /// Set while the server grants no locks because it restarted and may have forgotten some.
    pub quarantine: Option<Quarantine>,
}

/// A period in which the requests of a waiting task fail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outage {
    /// The time since the first request failed.
    pub lasts: Duration,
    /// The kind of the newest error.
    pub kind: ErrorKind,
    /// The text of the newest error.
    pub message: String,
}

/// A period in which a server grants no locks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Quarantine {
    /// The time until its end.
    pub left: Duration,
    /// The reason, and the option that controls it.
    pub why: String,
}

impl Waiting {
    pub(crate) fn new(lock: LockName) -> Self {
        Self {
            lock,
            waited: Duration::ZERO,
            holder: None,
            position: None,
            behind_local_task: false,
            outage: None,
            quarantine: None,
        }
    }
}
