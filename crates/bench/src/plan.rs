//! What is measured: workloads, the sides compared in each, and how both are spelled on a command line.

use std::time::Duration;

use clap::ValueEnum;

use crate::contend::Pace;

/// The engine of our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Memory,
}

/// What the tasks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    #[value(name = "W1", alias = "w1")]
    Free,
    #[value(name = "W2", alias = "w2")]
    Distinct,
    #[value(name = "W3", alias = "w3")]
    Contended,
    #[value(name = "W4", alias = "w4")]
    Processes,
    #[value(name = "W5", alias = "w5")]
    HandOver,
    #[value(name = "P2", alias = "p2")]
    Pair,
    #[value(name = "P16", alias = "p16")]
    Ring,
}

/// Who does it. The runtime is part of our side: the same lock differs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    SqliteMulti,
    SqliteCurrent,
    /// Ours without local passes: every turn is fetched from the engine.
    SqliteUnpassed,
    MemoryMulti,
    MemoryCurrent,
    /// The engine's own two statements through rusqlite.
    Statements,
    /// The release statement, then 32 bytes into the other's FIFO.
    Bell,
    Flock,
    MutexMulti,
    MutexCurrent,
}

/// The runtime a side's tasks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    Multi,
    Current,
}

impl Workload {
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Free => "W1",
            Self::Distinct => "W2",
            Self::Contended => "W3",
            Self::Processes => "W4",
            Self::HandOver => "W5",
            Self::Pair => "P2",
            Self::Ring => "P16",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Free => "free acquire and release, one task",
            Self::Distinct => "64 tasks on 64 locks",
            Self::Contended => "16 tasks on one lock",
            Self::Processes => "4 processes x 4 tasks on one lock",
            Self::HandOver => "hand-over between two processes",
            Self::Pair => "2 tasks pass one lock to each other",
            Self::Ring => "16 tasks pass one lock round",
        }
    }

    pub(crate) fn processes(self) -> u32 {
        match self {
            Self::Processes => 4,
            Self::HandOver => 2,
            _ => 1,
        }
    }

    /// Tasks in each process.
    pub(crate) fn tasks(self) -> u32 {
        match self {
            Self::Free | Self::HandOver => 1,
            Self::Distinct => 64,
            Self::Contended | Self::Ring => 16,
            Self::Processes => 4,
            Self::Pair => 2,
        }
    }

    /// Whether single passes are timed, instead of turns.
    pub(crate) fn is_passing(self) -> bool {
        matches!(self, Self::Pair | Self::Ring)
    }

    /// The lock that a task takes.
    pub(crate) fn lock_name(self, task: u32) -> String {
        let number = if self == Self::Distinct { task } else { 0 };
        format!("bench/{number}")
    }

    /// What this workload compares on `engine`, ours first; nothing if it does not apply.
    pub(crate) fn sides(self, engine: Engine) -> &'static [Side] {
        use Side::{Bell, Flock, MemoryCurrent, MemoryMulti, MutexCurrent, MutexMulti};
        use Side::{SqliteCurrent, SqliteMulti, SqliteUnpassed, Statements};
        match (engine, self) {
            (Engine::Sqlite, Self::Free | Self::Distinct) => &[SqliteMulti, SqliteCurrent, Statements],
            (Engine::Sqlite, Self::Contended | Self::Processes) => {
                &[SqliteMulti, SqliteCurrent, SqliteUnpassed, Flock]
            }
            (Engine::Sqlite, Self::HandOver) => &[SqliteMulti, SqliteCurrent, Bell, Flock],
            (Engine::Memory, Self::Free | Self::Distinct | Self::Contended) => {
                &[MemoryMulti, MutexMulti, MemoryCurrent, MutexCurrent]
            }
            (Engine::Memory, Self::Processes | Self::HandOver) => &[],
            // Both engines side by side: a pass asks neither, so they should not differ.
            (_, Self::Pair | Self::Ring) => {
                &[MemoryMulti, SqliteMulti, MutexMulti, MemoryCurrent, SqliteCurrent, MutexCurrent]
            }
        }
    }
}

impl Side {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::SqliteMulti => "ours: sqlite, multi-thread",
            Self::SqliteCurrent => "ours: sqlite, current-thread",
            Self::SqliteUnpassed => "ours: sqlite, never passed",
            Self::MemoryMulti => "ours: memory, multi-thread",
            Self::MemoryCurrent => "ours: memory, current-thread",
            Self::Statements => "floor: raw statements",
            Self::Bell => "floor: raw release + bell",
            Self::Flock => "floor: flock",
            Self::MutexMulti => "floor: tokio Mutex, multi",
            Self::MutexCurrent => "floor: tokio Mutex, current",
        }
    }

    /// The sides that this one is divided by.
    pub(crate) fn floors(self, workload: Workload) -> &'static [Side] {
        match (self, workload) {
            (Self::SqliteMulti | Self::SqliteCurrent, Workload::HandOver) => &[Self::Bell, Self::Flock],
            (Self::SqliteMulti | Self::SqliteCurrent, Workload::Free | Workload::Distinct) => {
                &[Self::Statements]
            }
            (Self::SqliteMulti, Workload::Contended | Workload::Processes) => {
                &[Self::Flock, Self::SqliteUnpassed]
            }
            (Self::SqliteCurrent, Workload::Contended | Workload::Processes) => &[Self::Flock],
            (Self::SqliteMulti | Self::MemoryMulti, _) => &[Self::MutexMulti],
            (Self::SqliteCurrent | Self::MemoryCurrent, _) => &[Self::MutexCurrent],
            _ => &[],
        }
    }

    pub(crate) fn flavor(self) -> Flavor {
        match self {
            Self::SqliteCurrent | Self::MemoryCurrent | Self::MutexCurrent => Flavor::Current,
            _ => Flavor::Multi,
        }
    }

    /// How the loop of a task is paced. The same for every side that is compared, or the ratio means nothing.
    pub(crate) fn pace(self, workload: Workload) -> Pace {
        let in_memory =
            matches!(self, Self::MemoryMulti | Self::MemoryCurrent | Self::MutexMulti | Self::MutexCurrent);
        let hands_over = workload == Workload::HandOver;
        Pace {
            // Long enough that the other process stands in the queue again before the release.
            hold: hands_over.then_some(Duration::from_millis(2)),
            // The core belongs to the receiver: asking again at once would be measured as part of the hand-over.
            pause: hands_over.then_some(Duration::from_micros(300)),
            // A turn in memory costs little more than reading the clock does.
            thrifty: in_memory,
        }
    }
}

/// How a value is spelled on the command line of a child.
pub(crate) fn spelled(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
