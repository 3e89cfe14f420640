//! How long transactions of others are waited for.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::database::Transaction;
use super::in_the_way::InTheWay;
use crate::{Error, ErrorKind, Result};

/// How often something is tried that another got in the way of.
const TRIES: u32 = 8;
/// How many renewals of a client wait for kept rows at the same time. Each has a connection to itself until the server answers,
/// and some must be left for the renewals that need not wait.
const MOST_WAITING: usize = 2;
/// A server answers sooner than this, because it waits for 3 s at the most for each lock; or not at all.
const LONGEST_WAIT: Duration = Duration::from_secs(7);

/// Tries again what another got in the way of, also if that stays there.
pub(in crate::engines) async fn repeat<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
) -> Result<T> {
    repeat_if(attempt, |_| true).await
}

/// Tries again if what got in the way is gone by now. The core decides whether to wait for what stays: the caller may not want
/// to, and others may wait for the same connection.
pub(super) async fn repeat_passed<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    repeat_if(attempt, |in_the_way| in_the_way == InTheWay::Passed).await
}

async fn repeat_if<T, F: Future<Output = Result<T>>>(
    attempt: impl Fn() -> F,
    is_worth_it: fn(InTheWay) -> bool,
) -> Result<T> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if InTheWay::of(&error).is_some_and(is_worth_it) => {}
            answer => return answer,
        }
    }
    attempt().await
}

/// Renewals that wait for rows which others keep.
#[derive(Clone)]
pub(super) struct WaitingRenewals(Arc<Semaphore>);

impl Default for WaitingRenewals {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_WAITING)))
    }
}

/// Whether somebody still waits for the answer to a renewal.
pub(super) struct Wanted(Weak<()>);

impl Wanted {
    /// Commits the renewal if so: one that comes too late would keep a lost lock from others for another lease.
    pub(super) async fn commit(&self, renewal: impl Transaction) -> Result<()> {
        if self.0.strong_count() == 0 {
            renewal.roll_back().await;
            return Err(Error::new(ErrorKind::Unreachable, "the renewal came too late, and was undone"));
        }
        renewal.commit(Vec::new()).await.map(drop)
    }
}

impl WaitingRenewals {
    /// A renewal that waits for its row. It goes on when its caller does not: the connection can be used again when the server
    /// has answered, and until then it counts as one that waits. `None` if too many wait already.
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
        let no_answer = || Error::new(ErrorKind::Unreachable, "the renewal was not answered");
        let renewed = waiting.await.map_err(|_| no_answer()).and_then(|done| done.map_err(|_| no_answer()));
        drop(caller);
        Some(renewed.flatten())
    }
}

/// What a renewal is told that did not wait for its row.
pub(super) fn kept_by_another() -> Error {
    Error::new(ErrorKind::Busy, "another transaction keeps the row of this lock")
}
