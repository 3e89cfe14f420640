//! Why a lock was lost.

use std::fmt;

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease ended: this process was paused, or asleep, for too long.
    Expired,
    /// An operator took the lock away.
    Revoked,
    /// What the engine stored of this claim is gone: flushed, evicted, deleted.
    Removed,
    /// The engine's session ended.
    SessionEnded,
    /// The engine could not be reached until the lease was about to end.
    Unreachable,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ended before it was renewed",
            Self::Revoked => "an operator took it away",
            Self::Removed => "the engine no longer knows it",
            Self::SessionEnded => "the session with the engine ended",
            Self::Unreachable => "the engine could not be reached until the lease was about to end",
        })
    }
}
