//! The GETSET recipe as services run it: three commands one after the other, with the time of expiry as the
//! value.

use std::time::Duration;

use latchwork::clock::wall_micros;

use super::harness::{HazardHarness, LOCK};
use super::naive::Naive;

/// Milliseconds since 1970, by a correct clock.
pub(crate) fn wall_millis() -> i64 {
    (wall_micros() / 1_000) as i64
}

/// A client of the recipe. Its clock may be wrong.
pub(crate) struct Recipe {
    connection: Naive,
    /// How far its clock is ahead, in milliseconds.
    ahead: i64,
    /// The value that it set last: this is all it knows of its lock.
    pub(crate) value: i64,
}

impl Recipe {
    pub(crate) fn new(harness: &HazardHarness, ahead: i64) -> Self {
        Self { connection: harness.naive(), ahead, value: 0 }
    }

    fn now(&self) -> i64 {
        wall_millis() + self.ahead
    }

    /// The first command: true if the lock was free.
    pub(crate) fn set_if_free(&mut self, lease: Duration) -> bool {
        self.value = self.now() + lease.as_millis() as i64;
        self.connection.setnx(LOCK, &self.value.to_string())
    }

    /// The second command: whether the holder's time has passed.
    pub(crate) fn finds_it_over(&mut self) -> bool {
        let now = self.now();
        self.connection.get(LOCK).is_some_and(|value| time(&value) < now)
    }

    /// The third command: overwrites the value, and has won if the former value was still past.
    pub(crate) fn overwrite(&mut self, lease: Duration) -> bool {
        let now = self.now();
        self.value = now + lease.as_millis() as i64;
        self.connection.getset(LOCK, &self.value.to_string()).is_none_or(|value| time(&value) < now)
    }

    /// All three commands.
    pub(crate) fn take(&mut self, lease: Duration) -> bool {
        self.set_if_free(lease) || (self.finds_it_over() && self.overwrite(lease))
    }

    /// Deletes the key if it has the client's own value.
    pub(crate) fn release(&mut self) -> bool {
        self.connection.get(LOCK).is_some_and(|value| time(&value) == self.value) && self.connection.del(LOCK)
    }
}

fn time(value: &str) -> i64 {
    value.parse().expect("the recipe stores times")
}
