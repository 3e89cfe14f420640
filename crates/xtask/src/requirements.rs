//! The requirements of each test case. Cases that only wait for leases to end or servers to restart run in
//! parallel; cases that compute, or that start many processes, have the cores for themselves.

use std::time::Duration;

/// The share of the machine that a case may use while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// Hundredths of a core.
    pub(crate) cores: u32,
    /// Mebibytes, servers included.
    pub(crate) memory: u32,
    /// A case that runs longer is stuck, and is killed.
    pub(crate) limit: Duration,
}

/// Every core of the machine.
pub(crate) const ALL_CORES: u32 = u32::MAX;
const DEFAULT: Requirements = needs(20, 100);
const USUAL_LIMIT: Duration = Duration::from_secs(180);

/// By suite (the name of the test binary) and the beginning of the case's name. The longest match counts.
const TABLE: &[(&str, &str, Requirements)] = &[
    ("conformance", "", Requirements { limit: Duration::from_secs(900), ..needs(10, 400) }),
    ("conformance", "zookeeper-3", Requirements { limit: Duration::from_secs(900), ..needs(10, 1200) }),
    ("etcd_faults", "", needs(25, 300)),
    ("failed_tries", "", needs(80, 400)),
    ("hostile_replies", "", needs(80, 400)),
    ("latch-previous", "", needs(40, 500)),
    ("latch-previous", "zookeeper", needs(40, 900)),
    ("machine", "", needs(40, 200)),
    ("mariadb_faults", "", needs(30, 400)),
    // A hundred connections, whose grants are checked for their order: waiters without processor time lose
    // their places in the queue.
    ("mariadb_faults", "contenders::a_hundred", needs(ALL_CORES, 800)),
    ("postgres_faults", "", needs(30, 200)),
    ("postgres_faults", "contenders::a_hundred", needs(ALL_CORES, 800)),
    // Models that compute for a minute; on a machine that is busy with other work, for several.
    ("redlock", "", Requirements { limit: Duration::from_secs(600), ..needs(100, 500) }),
    ("session_faults", "", needs(30, 400)),
    ("simulation", "", Requirements { limit: Duration::from_secs(600), ..needs(100, 200) }),
    ("torture", "", Requirements { limit: Duration::from_secs(600), ..needs(ALL_CORES, 500) }),
    ("zookeeper_faults", "", needs(40, 900)),
    ("zookeeper_quiet", "", needs(40, 500)),
];

const fn needs(cores: u32, memory: u32) -> Requirements {
    Requirements { cores, memory, limit: USUAL_LIMIT }
}

/// The requirements of this case of this suite.
pub(crate) fn of(suite: &str, case: &str) -> Requirements {
    let matching = TABLE.iter().filter(|(name, begins, _)| *name == suite && case.starts_with(begins));
    matching.max_by_key(|(_, begins, _)| begins.len()).map_or(DEFAULT, |(_, _, needs)| *needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_match_counts() {
        assert_eq!(of("conformance", "zookeeper-3::").memory, 1200);
        assert_eq!(of("conformance", "zookeeper::").memory, 400);
        assert_eq!(of("unknown", "case"), DEFAULT);
    }
}
