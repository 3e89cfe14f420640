//! Whole days of a small fleet in a few milliseconds: the real core on the memory engine, behind a seeded network, under
//! paused time. The same seed gives the same day.

mod actor;
mod day;
mod nemesis;

pub use day::{Day, Failure};

use std::time::Duration;

use latchwork::LockName;

/// How many events a day has at the least.
pub const EVENTS: usize = 280;
/// How many before anything goes wrong: then it is known who came first.
const MORNING: usize = 110;
/// The locks that are held by one at a time, and their leases.
const LOCKS: [(&str, Duration); 2] = [("orders", Duration::from_secs(2)), ("ledger", Duration::from_secs(8))];
/// A lock that many read or one writes.
const SHELF: (&str, Duration) = ("shelf", Duration::from_secs(4));
/// A lock with so many permits.
const POOL: (&str, Duration, u32) = ("pool", Duration::from_secs(3), 2);
/// A lock whose holders all call themselves by one owner: they take over from each other.
const OWNED: (&str, Duration) = ("owned", Duration::from_secs(3));

fn name(text: &str) -> LockName {
    LockName::new(text).expect("a good name")
}

/// Lives through the day that follows from `seed`.
///
/// # Errors
/// The first promise that was broken.
///
/// # Panics
/// If no runtime can be had.
pub fn live(seed: u64) -> Result<Day, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(Day::live(seed))
}
