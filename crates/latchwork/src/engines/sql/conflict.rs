//! Conflicts with other transactions, and retries after them.

use std::future::Future;

use crate::Result;

/// The number of attempts when other transactions interfere.
const MAX_ATTEMPTS: u32 = 8;

/// A conflict with another transaction. It is the source of an error after which a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Conflict {
    /// The conflict is over: a deadlock, or two concurrent writes.
    Passed,
    /// The other transaction still has the row lock, and kept it for longer than a statement waits.
    Stays,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the transaction was rolled back because it conflicted with another one")
    }
}

impl std::error::Error for Conflict {}

impl Conflict {
    /// The conflict, if the error says that nothing was done because of one.
    pub(super) fn of(error: &crate::Error) -> Option<Self> {
        std::error::Error::source(error)?.downcast_ref().copied()
    }
}

/// Retries an attempt after any conflict, even if the other transaction still has its row lock.
pub(in crate::engines) async fn retry_on_conflict<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
) -> Result<T> {
    retry_if(attempt, |_| true).await
}

/// Retries an attempt if the conflict is over. The core decides whether to wait for a conflict that lasts:
/// the caller may not want to wait, and other tasks may need the connection.
pub(super) async fn retry_on_passed_conflict<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
) -> Result<T> {
    retry_if(attempt, |conflict| conflict == Conflict::Passed).await
}

async fn retry_if<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
    is_worth_it: fn(Conflict) -> bool,
) -> Result<T> {
    for _ in 1..MAX_ATTEMPTS {
        match attempt().await {
            Err(error) if Conflict::of(&error).is_some_and(is_worth_it) => {}
            answer => return answer,
        }
    }
    attempt().await
}
