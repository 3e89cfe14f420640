//! The reasons for which a lock is lost.

use std::fmt;

/// The reason for which a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease ended: this process, or its machine, was suspended for too long.
    Expired,
    /// An operator took the lock away.
    Revoked,
    /// The stored claim is gone: flushed, evicted or deleted.
    Removed,
    /// Another process with the same owner took the lock over.
    TakenOver,
    /// The lock was held for as long as [`Lock::max_hold`](crate::Lock::max_hold) allows.
    HeldTooLong,
    /// This process is a copy of the one that acquired the lock: a fork, or an image restored on another
    /// boot.
    Copied,
    /// The session with the engine ended.
    SessionEnded,
    /// The engine could not be reached until the lease was about to end.
    Unreachable,
}

impl Loss {
    /// The reason as a label, for metrics and programs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Removed => "removed",
            Self::TakenOver => "taken_over",
            Self::HeldTooLong => "held_too_long",
            Self::Copied => "copied",
            Self::SessionEnded => "session_ended",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ended before it was renewed",
            Self::Revoked => "an operator took it away",
            Self::Removed => "the engine no longer knows it",
            Self::TakenOver => "another process with the same owner took it over",
            Self::HeldTooLong => "it was held for as long as max_hold allows",
            Self::Copied => "this process is a copy (a fork, a restored image) of the one that took it",
            Self::SessionEnded => "the session with the engine ended",
            Self::Unreachable => "the engine could not be reached until the lease was about to end",
        })
    }
}
