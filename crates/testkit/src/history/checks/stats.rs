//! The statistics of a check.

use std::fmt;
use std::time::Duration;

/// The statistics of a check. A check that looked at nothing has shown nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The name of the check.
    pub check: &'static str,
    /// The number of holds, attempts or claims that were judged.
    pub judged: usize,
    /// The number of them that were left out, because a fault was active under which the engine does not give
    /// this guarantee.
    pub excused: usize,
    /// The longest time that an attempt waited for its answer; only `progress` measures it.
    pub longest_wait: Duration,
    /// The longest time that a lock was wanted and not held; only `progress` measures it.
    pub longest_idle: Duration,
}

impl Stats {
    pub(super) const fn new(check: &'static str) -> Self {
        Self { check, judged: 0, excused: 0, longest_wait: Duration::ZERO, longest_idle: Duration::ZERO }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} judged, {} excused", self.check, self.judged, self.excused)?;
        if !self.longest_wait.is_zero() {
            write!(f, ", longest wait {:?}, longest idle {:?}", self.longest_wait, self.longest_idle)?;
        }
        Ok(())
    }
}
