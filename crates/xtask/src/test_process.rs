//! One test process: it is started with its share of the machine, and ended at its time limit.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::binaries::Binary;
use crate::budget::{Budget, Priority};
use crate::budget_socket::SOCKET_VARIABLE;
use crate::report::{Failure, Outcome, Report};
use crate::requirements;
use crate::scheduler::Environment;

const POLL: Duration = Duration::from_millis(10);
/// Most conformance cases wait for leases to end.
const CONFORMANCE_THREADS: &str = "12";

/// The cases that one process runs.
pub(crate) struct TestProcess {
    pub(crate) binary: Binary,
    pub(crate) cases: Cases,
}

pub(crate) enum Cases {
    /// One case, by its whole name.
    One(String),
    /// The conformance cases whose names contain this text.
    Conformance(String),
}

impl TestProcess {
    /// Runs the cases when their share of the machine is free.
    pub(crate) fn run(&self, budget: &Budget, socket: &Path, environment: &Environment, report: &Report) {
        let suite = &self.binary.suite;
        let requirements = requirements::of(suite, self.name());
        let share = budget.take(requirements.cores, requirements.memory, Priority::NewProcess);
        report.begins(suite, self.name());
        let began = Instant::now();
        let outcome =
            self.outcome(socket, requirements.limit, environment, report).unwrap_or_else(|error| Outcome {
                passed: 0,
                failures: vec![self.failure(self.name(), format!("cannot be run: {error}"), began)],
                cpu: Duration::ZERO,
            });
        drop(share);
        // Cases of conformance report their own time.
        if let Cases::One(case) = &self.cases {
            report.ends(suite, case, began.elapsed());
        }
        report.ended(suite, self.name(), began, outcome);
    }

    fn name(&self) -> &str {
        let (Cases::One(name) | Cases::Conformance(name)) = &self.cases;
        name
    }

    fn outcome(
        &self,
        socket: &Path,
        limit: Duration,
        environment: &Environment,
        report: &Report,
    ) -> io::Result<Outcome> {
        let began = Instant::now();
        let mut output = unnamed_file()?;
        // The kernel ends the test process if this one dies, and with the test process its servers.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.binary.path);
        match &self.cases {
            // Without capture: captured output of a process that is killed would be lost.
            Cases::One(name) => command.args(["--exact", name, "--nocapture"]),
            Cases::Conformance(filter) => command.args([filter, "--test-threads", CONFORMANCE_THREADS]),
        };
        command.envs(environment.iter().cloned());
        command.env(SOCKET_VARIABLE, socket).current_dir(&self.binary.folder).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        // Tests stop processes. When the shell that started `./test` in the background exits, its process
        // group is orphaned, and the kernel sends SIGHUP to an orphaned group with a stopped member.
        command.process_group(0);
        let mut child = command.spawn()?;
        let ended = wait(&child, limit)?;
        if !ended {
            child.kill()?;
        }
        let cpu = cpu_time(child.id());
        let status = child.wait()?;
        output.rewind()?;
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut failures = Vec::new();
        let passed = match &self.cases {
            Cases::One(name) => {
                let passed = status.success() && text.contains("test result: ok. 1 passed");
                if !passed {
                    let why = if ended { status.to_string() } else { format!("killed after {limit:?}") };
                    failures.push(self.failure(name, format!("{text}\n{why}"), began));
                }
                usize::from(passed)
            }
            Cases::Conformance(_) => {
                text.lines()
                    .filter_map(|line| line.strip_prefix("covers: "))
                    .for_each(|line| report.covers(line));
                for case in cases_that(&text, "FAILED") {
                    failures.push(self.failure(case, section(&text, case), began));
                }
                if failures.is_empty() && !status.success() {
                    let why = if ended { status.to_string() } else { format!("killed after {limit:?}") };
                    failures.push(self.failure(self.name(), format!("{text}\n{why}"), began));
                }
                cases_that(&text, "ok").count()
            }
        };
        Ok(Outcome { passed, failures, cpu })
    }

    fn failure(&self, case: &str, output: String, began: Instant) -> Failure {
        let suite = &self.binary.suite;
        let repeat = match (&self.cases, case.split_once("::")) {
            (Cases::Conformance(_), Some((kind, case))) => format!("./test {kind} {case}"),
            _ => format!("./test {suite} '{case}'"),
        };
        Failure {
            name: format!("{suite} {case}"),
            output,
            repeat: repeat.trim_end().to_owned(),
            began,
            ended: Instant::now(),
        }
    }
}

/// Whether the process ended in time. It is not reaped yet, so that its processor time can still be read.
fn wait(child: &Child, limit: Duration) -> io::Result<bool> {
    let id = Pid::from_raw(child.id().cast_signed());
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let began = Instant::now();
    loop {
        if waitid(Id::Pid(id), flags)? != nix::sys::wait::WaitStatus::StillAlive {
            return Ok(true);
        }
        if began.elapsed() >= limit {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}

/// The processor time of an ended process and of the children that it has reaped.
fn cpu_time(id: u32) -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // utime, stime, cutime and cstime are fields 14 to 17; the first after the name is field 3.
    let ticks: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// Names of the cases with this result.
fn cases_that<'a>(text: &'a str, result: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| {
        let (name, ended) = line.strip_prefix("test ")?.split_once(" ... ")?;
        (ended == result).then_some(name.trim_end())
    })
}

/// The part of the output that explains the failure of a case.
fn section(text: &str, case: &str) -> String {
    let begin = format!("---- {case} ----");
    let after = text.lines().skip_while(|line| *line != begin).skip(1);
    let lines: Vec<_> = after.take_while(|line| !line.starts_with("---- ") && *line != "failures:").collect();
    let panicked = text.lines().filter(|line| line.contains("panicked at") && line.contains(case));
    panicked.chain(lines).collect::<Vec<_>>().join("\n")
}

fn unnamed_file() -> io::Result<File> {
    let path: PathBuf = std::env::temp_dir().join(format!(
        "latchwork-test-{}-{:?}",
        std::process::id(),
        thread::current().id()
    ));
    let file = File::options().create_new(true).read(true).append(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "test redis::a  ... ok\ntest redis::b ... FAILED\n\nfailures:\n\n---- redis::b ----\ntest panicked: left\nright\n\nfailures:\n    redis::b\n";

    #[test]
    fn results_are_read_from_the_output() {
        assert_eq!(cases_that(PRINTED, "ok").collect::<Vec<_>>(), ["redis::a"]);
        assert_eq!(cases_that(PRINTED, "FAILED").collect::<Vec<_>>(), ["redis::b"]);
        assert_eq!(section(PRINTED, "redis::b"), "test panicked: left\nright\n");
    }
}
