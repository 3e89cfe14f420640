//! Transactions that were undone because of others.

/// Another transaction was in the way: the source of an error that is worth a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Conflict {
    /// The conflict is over: a deadlock, or two concurrent writes.
    Passed,
    /// The other transaction still has the lock, and kept it for longer than a statement waits.
    Stays,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another transaction was in the way, and this one did nothing")
    }
}

impl std::error::Error for Conflict {}

impl Conflict {
    /// The conflict, if this error says that nothing was done because of one.
    pub(super) fn of(error: &crate::Error) -> Option<Self> {
        std::error::Error::source(error)?.downcast_ref().copied()
    }
}
