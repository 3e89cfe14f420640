//! The types of the queue's decisions, and of the values that they hand on. [`LocalQueue`](super::LocalQueue)
//! decides.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{ClaimRole, NextTask, PendingRelease};
use crate::clock::Moment;
use crate::engine::Claim;

/// The right to drive the claim of a name at the server. It counts as outstanding, so it must be used or
/// handed back.
#[must_use]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct DriveRight {
    pub(in crate::core) role: ClaimRole,
    pub(in crate::core) inherited: Inherited,
    /// Notified when no reader of this client holds an older claim any more.
    pub(in crate::core) readers: Option<Arc<Notify>>,
}

/// The remains of a task that gave up: its claim, for the next task to go on with.
#[derive(Clone, Default)]
pub(crate) struct Inherited {
    pub(crate) claim: Option<Arc<Claim>>,
    pub(crate) strays: Strays,
}

/// If replies to requests of a claim are missing: the time until which these requests may still take effect.
pub(crate) type Strays = Option<Moment>;

/// The decision about the next task in line.
#[must_use]
pub(in crate::core) enum Handoff<S, H> {
    /// The task receives the held claim.
    Pass { to: NextTask<S>, held: H },
    /// The task must get the lock from the server.
    Drive { to: NextTask<S>, right: DriveRight },
    /// It is no task's turn.
    Nothing,
}

/// The decision about a task that asks for the lock.
#[must_use]
pub(in crate::core) enum QueueAnswer<S, H> {
    /// It must get the lock from the server.
    Drive(DriveRight),
    /// It holds together with a guard of its owner, or with other readers.
    Join(H),
    /// It waits in line.
    Queued { arrival: u64, slot: S },
    /// It does not wait, and other tasks have the lock or come before it.
    Busy(LocalBlocker),
    /// It does not wait, and only this release keeps it from asking.
    Closed(Arc<PendingRelease>),
}

/// The reason why a task of this client is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum LocalBlocker {
    /// It holds the lock.
    Holder,
    /// It waits for the lock, or asks the server for it.
    Waiter,
}
