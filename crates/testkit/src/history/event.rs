//! One recorded event.

use latchwork::clock::Moment;
use latchwork::engine::Mode;
use latchwork::{LockName, Loss};

use super::fault::Fault;
use super::tag::Tag;

/// One recorded event: its time, client, attempt and lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time, on the one clock of the history.
    pub at: Moment,
    /// The client.
    pub who: Tag,
    /// The attempt, unique within its process; zero for an event without one.
    pub attempt: u64,
    /// The lock, for an event about one.
    pub lock: Option<LockName>,
    /// The kind of event.
    pub what: What,
}

/// The kind of event.
///
/// The record is kept so that a hold's interval is never longer than the truth: an acquire is recorded after
/// it returned, a release before it is called, a kill before the signal is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A process began to record.
    Started,
    /// An acquire is about to be called.
    Invoked(Mode),
    /// The attempt was seen in the engine's queue.
    Queued,
    /// The acquire returned a guard.
    Acquired {
        /// The fencing token, if the engine has them.
        token: Option<u64>,
        /// The end of the lease, as known at this moment.
        lease_end: Moment,
    },
    /// The guard is certain, and its lease now ends at this time.
    Extended {
        /// The end of the lease, as known at this moment.
        lease_end: Moment,
    },
    /// The acquire returned that others hold the lock.
    GaveUp(GaveUp),
    /// The acquire returned an error that changed nothing.
    Failed,
    /// The acquire returned an error after which the engine may have acted.
    Unknown {
        /// The time until which the engine may count the attempt as a holder.
        held_until: Moment,
    },
    /// The acquire was dropped before it returned. The attempt never held the lock, whatever the engine did.
    Cancelled {
        /// The time until which the engine may count the attempt as a holder.
        held_until: Moment,
    },
    /// A release is about to be called, or the guard to be dropped.
    ReleaseInvoked,
    /// The release returned.
    Released,
    /// The release returned an error.
    ReleaseFailed,
    /// The holder listens for a loss.
    Listening,
    /// The holder stopped listening before a loss was reported.
    Deaf {
        /// The end of the lease, as known at this moment.
        lease_end: Moment,
    },
    /// A loss was reported to the listening holder.
    Told {
        /// The reason.
        loss: Loss,
        /// The end of the lease, as known at this moment.
        lease_end: Moment,
    },
    /// The holder checked and found the lock lost.
    FoundLost(Loss),
    /// An observer starts to follow the leaders.
    Watching,
    /// The observer saw the leader of this term.
    Saw {
        /// The term.
        term: u64,
    },
    /// The observer stopped following.
    LookedAway,
    /// A query for the leader was answered.
    Named {
        /// The leader's term; `None` if there is no leader.
        term: Option<u64>,
        /// The time of the query.
        asked: Moment,
    },
    /// The process is about to be stopped, for longer than its leases.
    Stopped,
    /// The process is about to be killed.
    Killed,
    /// A fault begins.
    FaultBegan(Fault),
    /// A fault is over.
    FaultEnded(Fault),
    /// No client waits for or holds a lock any more.
    Quiesced,
}

/// The reason why an attempt ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// Others hold the lock, and the attempt only tried.
    Busy,
    /// The wait limit passed.
    TimedOut,
}
