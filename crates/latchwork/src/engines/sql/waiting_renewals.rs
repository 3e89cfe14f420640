//! Renewals that wait for rows locked by other transactions: how many, and for how long.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::row_store::Transaction;
use crate::{Effect, Error, ErrorKind, Result};

/// How many renewals of a client wait for locked rows at the same time. Each occupies a connection until the
/// server answers, and some connections must be left for renewals that need not wait.
const MAX_WAITING: usize = 2;
/// The deadline of a waiting renewal. The server waits at most 3 s for each row lock, so no reply comes after
/// this.
const REPLY_DEADLINE: Duration = Duration::from_secs(7);

/// The renewals of a client that wait for locked rows.
#[derive(Clone)]
pub(super) struct WaitingRenewals(Arc<Semaphore>);

impl Default for WaitingRenewals {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_WAITING)))
    }
}

/// Whether the caller still waits for the answer to a renewal.
pub(super) struct RenewalCaller(Weak<()>);

impl RenewalCaller {
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
    pub(super) async fn wait<T, F>(&self, renewal: impl FnOnce(RenewalCaller) -> F) -> Option<Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let permit = self.0.clone().try_acquire_owned().ok()?;
        let caller = Arc::new(());
        let renewal = renewal(RenewalCaller(Arc::downgrade(&caller)));
        let waiting = tokio::spawn(async move {
            let _permit = permit;
            tokio::time::timeout(REPLY_DEADLINE, renewal).await
        });
        let no_reply = || {
            Error::new(ErrorKind::Unreachable, "the renewal was not answered").with_effect(Effect::Unknown)
        };
        let renewed = waiting.await.map_err(|_| no_reply()).and_then(|done| done.map_err(|_| no_reply()));
        drop(caller);
        Some(renewed.flatten())
    }
}

/// The error for a renewal that did not wait for its row.
pub(super) fn row_is_locked() -> Error {
    Error::new(ErrorKind::Busy, "another transaction has locked the row of this lock")
}
