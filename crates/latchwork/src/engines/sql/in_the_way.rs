//! Transactions that were undone because of others.

/// Another transaction was in the way: the source of an error that is worth a repetition.
#[derive(Debug)]
pub(in crate::engines) struct InTheWay;

impl std::fmt::Display for InTheWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("another transaction was in the way, and this one did nothing")
    }
}

impl std::error::Error for InTheWay {}

impl InTheWay {
    /// Whether this error says that nothing was done, and that the same may well succeed now.
    pub(super) fn is_source_of(error: &crate::Error) -> bool {
        std::error::Error::source(error).is_some_and(|source| source.is::<Self>())
    }
}
