//! How long a client waits for transactions of others.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::conflict::Conflict;
use super::database::Transaction;
use crate::{Effect, Error, ErrorKind, Result};

/// The number of attempts when other transactions interfere.
const TRIES: u32 = 8;
/// How many renewals of a client wait for locked rows at the same time. Each occupies a connection until the
/// server answers, and some connections must be left for renewals that need not wait.
const MOST_WAITING: usize = 2;
/// The longest time until a server answers, because it waits at most 3 s for each lock. After that no reply
/// will come.
const LONGEST_WAIT: Duration = Duration::from_secs(7);

/// Retries an attempt that another transaction interfered with, even if that transaction still has its lock.
pub(in crate::engines) async fn retry_on_conflict<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
) -> Result<T> {
    repeat_if(attempt, |_| true).await
}

/// Retries an attempt if the conflict is over. The core decides whether to wait for a conflict that lasts:
/// the caller may not want to wait, and other tasks may need the connection.
pub(super) async fn repeat_passed<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    repeat_if(attempt, |conflict| conflict == Conflict::Passed).await
}

async fn repeat_if<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
    is_worth_it: fn(Conflict) -> bool,
) -> Result<T> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if Conflict::of(&error).is_some_and(is_worth_it) => {}
            answer => return answer,
        }
    }
    attempt().await
}

/// Renewals that wait for rows locked by other transactions.
#[derive(Clone)]
pub(super) struct WaitingRenewals(Arc<Semaphore>);

impl Default for WaitingRenewals {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_WAITING)))
    }
}

/// Whether the caller still waits for the answer to a renewal.
pub(super) struct Wanted(Weak<()>);

impl Wanted {
    /// Commits the renewal if the caller still waits. A late renewal would keep a lost lock from others for
    /// another lease.
    pub(super) async fn commit(&self, renewal: impl Transaction) -> Result<()> {
        if self.0.strong_count() == 0 {
            renewal.roll_back().await;
            return Err(Error::new(ErrorKind::Unreachable, "the renewal came too late, and was undone"));
        }
        renewal.commit(Vec::new()).await.map(drop)
    }
}

impl WaitingRenewals {
    /// Runs a renewal that waits for its row. The renewal continues when its caller is gone: only after the
    /// reply can its connection be used again, and until then it counts as waiting. `None` if too many wait
    /// already.
    pub(super) async fn wait<T, F>(&self, renewal: impl FnOnce(Wanted) -> F) -> Option<Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let place = self.0.clone().try_acquire_owned().ok()?;
        let caller = Arc::new(());
        let renewal = renewal(Wanted(Arc::downgrade(&caller)));
        let waiting = tokio::spawn(async move {
            let _place = place;
            tokio::time::timeout(LONGEST_WAIT, renewal).await
        });
        let no_answer = || {
            Error::new(ErrorKind::Unreachable, "the renewal was not answered").with_effect(Effect::Unknown)
        };
        let renewed = waiting.await.map_err(|_| no_answer()).and_then(|done| done.map_err(|_| no_answer()));
        drop(caller);
        Some(renewed.flatten())
    }
}

/// The error for a renewal that did not wait for its row.
pub(super) fn kept_by_another() -> Error {
    Error::new(ErrorKind::Busy, "another transaction has locked the row of this lock")
}
