//! Runs the cases of the built binaries in parallel, within the budget of the machine.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};
use std::{fs, io, thread};

use crate::binaries::Binary;
use crate::budget::Budget;
use crate::budget_socket::BudgetSocket;
use crate::previous;
use crate::report::Report;
use crate::test_process::{Cases, TestProcess};

/// A conformance process shares one server among its cases. More processes at a time would only take memory.
const CONFORMANCE_PROCESSES: usize = 6;
/// More than the budget ever allows.
const PROCESSES: usize = 24;

/// The selected cases.
pub(crate) enum Selection {
    All,
    /// The cases that need no server other than Redis and take a few seconds.
    Quick,
    /// The conformance of engines whose names start with one of `kinds`, and `suites` without the cases of
    /// `without`.
    Version {
        kinds: &'static [&'static str],
        suites: &'static [&'static str],
        without: &'static [&'static str],
    },
    /// The conformance of the engines with this name, or the suite with this name: all cases, or those whose
    /// names contain `case`.
    Named {
        name: String,
        case: Option<String>,
    },
}

/// Environment variables of the test processes.
pub(crate) type Environment = [(&'static str, OsString)];

/// Runs the selected cases. `Err` if the binaries cannot list their cases, or if nothing is selected.
pub(crate) fn run(
    binaries: &[Binary],
    selection: &Selection,
    environment: &Environment,
    report: &'static Report,
) -> io::Result<()> {
    let budget: &'static Budget = Box::leak(Box::new(machine()));
    let socket = BudgetSocket::open(budget, report)?;
    let (mut conformance, mut others) = (VecDeque::new(), VecDeque::new());
    for binary in binaries {
        if binary.is_conformance() {
            let filters = selection.filters(&binary.kinds()?);
            report.expect(&binary.suite, 0, filters.len());
            report.expect_later(filters.len());
            conformance.extend(filters.into_iter().map(|filter| job(binary, Cases::Conformance(filter))));
        } else if selection.suite(binary) {
            let cases: Vec<_> = binary.list()?.into_iter().filter(|case| selection.case(case)).collect();
            report.expect(&binary.suite, cases.len(), cases.len());
            others.extend(cases.into_iter().map(|case| job(binary, Cases::One(case))));
        }
    }
    if conformance.is_empty() && others.is_empty() {
        return Err(io::Error::other("no engine, suite or case of it has that name; see ./test --help"));
    }
    let (conformance, others) = (Mutex::new(conformance), Mutex::new(others));
    thread::scope(|scope| {
        for (jobs, threads) in [(&conformance, CONFORMANCE_PROCESSES), (&others, PROCESSES)] {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(job) = next(jobs) {
                        job.run(budget, socket.path(), environment, report);
                    }
                });
            }
        }
    });
    Ok(())
}

impl Selection {
    /// Whether it has cases that run the previous release beside today's.
    pub(crate) fn needs_the_previous_release(&self) -> bool {
        match self {
            Self::All => true,
            Self::Quick | Self::Version { .. } => false,
            Self::Named { name, .. } => name == previous::SUITE,
        }
    }

    /// The filters of conformance, with one process for each.
    fn filters(&self, kinds: &[String]) -> Vec<String> {
        let (name, case) = match self {
            Self::All => {
                let all = kinds.iter().map(|kind| format!("{kind}::"));
                return all.chain(["every ".to_owned()]).collect();
            }
            Self::Quick => return ["memory::", "sqlite::", "redis::"].map(str::to_owned).to_vec(),
            Self::Version { kinds: prefixes, .. } => {
                let kinds =
                    kinds.iter().filter(|kind| prefixes.iter().any(|prefix| kind.starts_with(prefix)));
                return kinds.map(|kind| format!("{kind}::")).collect();
            }
            Self::Named { name, case } => (name, case.as_deref()),
        };
        let is_wanted = |kind: &&String| match case {
            Some(_) if kinds.contains(name) => *kind == name,
            _ => *kind == name || kind.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')),
        };
        kinds.iter().filter(is_wanted).map(|kind| format!("{kind}::{}", case.unwrap_or_default())).collect()
    }

    fn case(&self, name: &str) -> bool {
        match self {
            Self::Named { case: Some(case), .. } => name.contains(case),
            Self::Version { without, .. } => !without.contains(&name),
            _ => true,
        }
    }

    fn suite(&self, binary: &Binary) -> bool {
        match self {
            Self::All => true,
            Self::Quick => binary.is_unit_test && binary.package != "testkit" || binary.suite == "redlock",
            Self::Version { suites, .. } => suites.contains(&binary.suite.as_str()),
            Self::Named { name, .. } => binary.suite == *name,
        }
    }
}

fn job(binary: &Binary, cases: Cases) -> TestProcess {
    TestProcess { binary: binary.clone(), cases }
}

fn next(jobs: &Mutex<VecDeque<TestProcess>>) -> Option<TestProcess> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// The budget of this machine. A case that needs more gets the whole machine.
fn machine() -> Budget {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib =
        available.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(4 << 20);
    // A part stays free for other processes.
    let memory = kib / 1024 * 8 / 10;
    Budget::new(
        u32::try_from(cores).unwrap_or(u32::MAX / 100) * 100,
        u32::try_from(memory).unwrap_or(u32::MAX),
    )
}
