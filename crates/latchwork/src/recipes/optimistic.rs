//! Optimistic locking on a table of the application.

use std::time::Duration;

use crate::clock::Clock;
use crate::core::defaults;
use crate::{Error, ErrorKind, Result};

/// Repeats `attempt` until it succeeds, with a random pause between attempts: optimistic locking on a table
/// of the application with a version column.
///
/// An attempt reads value and version, and then runs `UPDATE ... SET ..., version = version + 1 WHERE id = ?
/// AND version = ?`. It returns `Some` if that changed a row. If it changed none, another client wrote first:
/// the attempt returns `None`, and is repeated.
///
/// # Guarantees
/// Sound on every database, which decides in one statement, without a lock and without a long transaction.
///
/// # Cancel safety
/// That of the attempt.
///
/// # Errors
/// The error of an attempt, and [`ErrorKind::TimedOut`], converted, if other clients wrote first until
/// `limit` had passed.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> latchwork::Result<()> {
/// use std::time::Duration;
///
/// # struct Table(std::sync::Mutex<(u32, u32)>);
/// # impl Table {
/// #     async fn read(&self) -> (u32, u32) { *self.0.lock().unwrap() }
/// #     async fn update(&self, left: u32, version: u32) -> usize {
/// #         let mut row = self.0.lock().unwrap();
/// #         if row.1 != version { return 0; }
/// #         *row = (left, version + 1);
/// #         1
/// #     }
/// # }
/// # let table = Table(std::sync::Mutex::new((5, 0)));
/// let left = latchwork::optimistic(Duration::from_secs(5), async || {
///     let (left, version) = table.read().await; // SELECT left_count, version FROM packet WHERE id = 1
///     let rows = table.update(left - 1, version).await; // UPDATE ... WHERE id = 1 AND version = ?
///     Ok::<_, latchwork::Error>((rows == 1).then_some(left - 1))
/// })
/// .await?;
/// assert_eq!(left, 4);
/// # Ok(()) }
/// ```
pub async fn optimistic<T, E: From<Error>>(
    limit: Duration,
    mut attempt: impl AsyncFnMut() -> Result<Option<T>, E>,
) -> Result<T, E> {
    let clock = Clock::boottime();
    let (end, mut longest) = (clock.now().after(limit), defaults::UPDATE_FIRST_PAUSE);
    loop {
        if let Some(done) = attempt().await? {
            return Ok(done);
        }
        let now = clock.now();
        if now >= end {
            let message = format!(
                "other clients wrote first for {limit:?}; let fewer clients write, or take a lock around it"
            );
            return Err(Error::new(ErrorKind::TimedOut, message).into());
        }
        pause(clock, longest).await;
        longest = (longest * 2).min(defaults::UPDATE_LONGEST_PAUSE);
    }
}

/// Sleeps for a random part of `longest`, so that clients that collided do not collide again.
pub(super) async fn pause(clock: Clock, longest: Duration) {
    let [part] = clock.random_bytes();
    clock.sleep_until(clock.now().after(longest * u32::from(part) / 255)).await;
}
