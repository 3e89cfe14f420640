//! One thing that happened.

use latchwork::clock::Moment;
use latchwork::engine::Mode;
use latchwork::{LockName, Loss};

use super::fault::Fault;
use super::tag::Tag;

/// One thing that happened: when, to whom, in which attempt, on which lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, on the one clock of the history.
    pub at: Moment,
    /// Who.
    pub who: Tag,
    /// The attempt, unique within its process; zero for what belongs to none.
    pub attempt: u64,
    /// The lock, if it is about one.
    pub lock: Option<LockName>,
    /// What.
    pub what: What,
}

/// What happened.
///
/// The record is kept so that a hold's interval is never longer than the truth: an acquire is recorded after it
/// returned, a release before it is called, a kill before the signal is sent.
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
        /// When the lease ends, as known at this moment.
        lease_end: Moment,
    },
    /// The guard is certain, and its lease now ends then.
    Extended {
        /// When the lease ends, as known at this moment.
        lease_end: Moment,
    },
    /// The acquire returned that others hold the lock.
    GaveUp(GaveUp),
    /// The acquire returned an error that changed nothing.
    Failed,
    /// The acquire returned an error after which the engine may have acted.
    Unknown {
        /// Until when the engine may count the attempt as a holder.
        held_until: Moment,
    },
    /// The acquire was dropped before it returned: it never entered, whatever the engine did.
    Cancelled {
        /// Until when the engine may count the attempt as a holder.
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
    /// The holder no longer listens, and was told nothing.
    Deaf {
        /// When the lease ends or ended, as known at this moment.
        lease_end: Moment,
    },
    /// The holder listened and was told of the loss.
    Told {
        /// Why.
        loss: Loss,
        /// When the lease ends or ended, as known at this moment.
        lease_end: Moment,
    },
    /// The holder looked and found the lock lost.
    FoundLost(Loss),
    /// Somebody begins to follow who leads.
    Watching,
    /// Whoever follows was told of the leader of this term.
    Saw {
        /// The term.
        term: u64,
    },
    /// It follows no longer.
    LookedAway,
    /// Somebody asked who leads, and this is the answer.
    Named {
        /// The leader's term; `None` if nobody leads.
        term: Option<u64>,
        /// When it was asked.
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
    /// Nobody wants anything any more.
    Quiesced,
}

/// Why an attempt ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// Others hold it, and it only tried.
    Busy,
    /// Its wait limit passed.
    TimedOut,
}
