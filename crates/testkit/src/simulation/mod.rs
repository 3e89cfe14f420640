//! Whole days of a small fleet in a few milliseconds: the real core on the memory engine, behind a seeded
//! network, under paused time. The same seed gives the same day.

mod actor;
mod day;
mod nemesis;

pub use day::{Day, Failure};

use std::time::Duration;

use latchwork::LockName;

/// The least number of events in a day.
pub const EVENTS: usize = 280;
/// The number of events before the first fault: until then the order of arrival is known.
const MORNING: usize = 110;
/// The exclusive locks and their leases.
const LOCKS: [(&str, Duration); 2] = [("orders", Duration::from_secs(2)), ("ledger", Duration::from_secs(8))];
/// A read-write lock.
const SHELF: (&str, Duration) = ("shelf", Duration::from_secs(4));
/// A lock with this many permits.
const POOL: (&str, Duration, u32) = ("pool", Duration::from_secs(3), 2);
/// A lock whose holders all use the same owner: they take over from each other.
const OWNED: (&str, Duration) = ("owned", Duration::from_secs(3));

fn name(text: &str) -> LockName {
    LockName::new(text).expect("a good name")
}

/// Simulates the day that follows from `seed`.
///
/// # Errors
/// The first guarantee that was broken.
///
/// # Panics
/// If no runtime can be created.
pub fn live(seed: u64) -> Result<Day, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(Day::live(seed))
}
