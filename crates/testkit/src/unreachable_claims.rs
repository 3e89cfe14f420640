//! Claims that no server can grant: one that waits, and one that only tries.

use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::{Error, ErrorKind, Result};
use tokio::task::JoinHandle;

use crate::harness::{SOON, now};
use crate::history::RecordedLock;

/// How long the waiting claim waits.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// How much longer than its wait limit the claim may take.
const GRACE: Duration = Duration::from_secs(2);

/// Two pending claims.
pub struct UnreachableClaims {
    waiting: JoinHandle<(Moment, Result<()>, Moment)>,
    trying: JoinHandle<(Moment, Result<()>, Moment)>,
}

impl UnreachableClaims {
    /// Starts both claims.
    pub fn asked(wait: RecordedLock, only_try: RecordedLock) -> Self {
        let waiting =
            tokio::spawn(async move { (now(), wait.wait(PATIENCE).acquire().await.map(drop), now()) });
        let trying = tokio::spawn(async move { (now(), only_try.try_acquire().await.map(drop), now()) });
        Self { waiting, trying }
    }

    /// Returns the error of the claim that only tried.
    ///
    /// # Panics
    /// If a claim was granted, failed with another error, or failed late.
    pub async fn refused(self) -> Error {
        let (error, waited) = refusal(self.waiting).await;
        assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::TimedOut), "{error}");
        assert!(waited < PATIENCE + GRACE, "{waited:?} exceeds the wait limit");
        let (error, waited) = refusal(self.trying).await;
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert!(waited < SOON, "{waited:?} for one try");
        error
    }
}

async fn refusal(asking: JoinHandle<(Moment, Result<()>, Moment)>) -> (Error, Duration) {
    let (begun, answer, ended) = asking.await.expect("no panic");
    let (error, waited) = (answer.expect_err("no server can grant it"), ended.since(begun));
    println!("{error} after {waited:?}");
    (error, waited)
}
