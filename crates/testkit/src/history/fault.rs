//! Faults that tests inject into an engine or its clients.

use std::fmt;
use std::str::FromStr;

use latchwork::{Faults, Promise};

/// A fault, as [`Faults`] names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A client is paused for longer than its lease.
    HolderPause,
    /// The server, or the machine, restarts.
    Restart,
    /// A replica takes over.
    Failover,
    /// The network is cut.
    Partition,
    /// The engine's wall clock is set.
    ClockStep,
    /// The stored state is deleted under a holder.
    DataDeleted,
    /// An operator revokes a lock at once.
    Revoked,
    /// The engine is slow, or answers with errors. No guarantee gets weaker; only progress has to wait.
    Trouble,
}

const WORDS: [(Fault, &str); 8] = [
    (Fault::HolderPause, "holder-pause"),
    (Fault::Restart, "restart"),
    (Fault::Failover, "failover"),
    (Fault::Partition, "partition"),
    (Fault::ClockStep, "clock-step"),
    (Fault::DataDeleted, "data-deleted"),
    (Fault::Revoked, "revoked"),
    (Fault::Trouble, "trouble"),
];

impl Fault {
    /// The promise of exclusion under this fault, from the engine's guarantees.
    pub fn promise(self, faults: &Faults) -> Promise {
        match self {
            Self::HolderPause => faults.holder_pause,
            Self::Restart => faults.restart,
            Self::Failover => faults.failover,
            Self::Partition => faults.partition,
            Self::ClockStep => faults.clock_step,
            Self::DataDeleted => faults.data_deleted,
            Self::Revoked => Promise::FencedOnly,
            Self::Trouble => Promise::Exclusive,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(fault, _)| fault == self).map_or("?", |(_, word)| word);
        f.write_str(word)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = WORDS.iter().find(|(_, word)| *word == text).map(|(fault, _)| *fault);
        found.ok_or_else(|| format!("{text:?} is no fault"))
    }
}
