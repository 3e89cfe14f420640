//! The report on stdout: one line for each stage and suite, progress, and at the end the slowest cases and
//! every failure with the command that repeats it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::standstills::Standstills;

/// The interval of progress lines, if stdout is not a terminal.
const REMINDER: Duration = Duration::from_secs(30);
const SLOWEST: usize = 10;
/// The width that every terminal has at least.
const TERMINAL_WIDTH: usize = 80;
/// The number of printed lines of a failure's output. Logs of continuous integration are truncated.
const FAILURE_LINES: usize = 60;

pub(crate) struct Report {
    started: Instant,
    on_terminal: bool,
    standstills: &'static Standstills,
    state: Mutex<ReportState>,
}

#[derive(Default)]
struct ReportState {
    /// Running cases, processes and stages, with their start times.
    running: BTreeMap<String, Instant>,
    /// The number of announced cases.
    expected: usize,
    /// The number of processes that have not announced their cases yet.
    unannounced: usize,
    passed: usize,
    failures: Vec<Failure>,
    times: Vec<(Duration, String)>,
    suites: BTreeMap<String, Suite>,
    coverage: Vec<String>,
    /// The processor time of all ended test processes.
    cpu: Duration,
}

/// The progress of one test binary.
struct Suite {
    jobs: usize,
    began: Option<Instant>,
    passed: usize,
    failed: usize,
    cpu: Duration,
}

/// A case or a stage that failed.
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) output: String,
    /// The command that repeats it.
    pub(crate) repeat: String,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

/// The result of a part of the run.
pub(crate) struct PartResult {
    pub(crate) passed: usize,
    /// The names of the failed cases.
    pub(crate) failed: Vec<String>,
}

/// The outcome of one test process.
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<Failure>,
    pub(crate) cpu: Duration,
}

impl Report {
    pub(crate) fn new() -> &'static Self {
        let on_terminal = io::stdout().is_terminal();
        let standstills = Standstills::record();
        let report = Self { started: Instant::now(), on_terminal, standstills, state: Mutex::default() };
        let report: &'static Self = Box::leak(Box::new(report));
        thread::spawn(|| report.show_progress());
        report
    }

    /// Runs a stage and prints a line with its time.
    pub(crate) fn stage<T>(&self, name: &str, work: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
        let began = Instant::now();
        self.begins("stage", name);
        let result = work();
        let mut state = self.lock();
        state.running.remove(&key("stage", name));
        let time = seconds(began.elapsed());
        match result {
            Ok(value) => {
                self.line(&format!("{name:40} ok      {time}"));
                Some(value)
            }
            Err(failure) => {
                self.line(&format!("{name:40} FAILED  {time}"));
                self.line(&last_lines(&failure.output));
                state.failures.push(failure);
                None
            }
        }
    }

    /// Counts cases that a stage ran.
    pub(crate) fn count(&self, passed: usize) {
        self.lock().passed += passed;
    }

    /// Announces the cases of a suite, and the number of processes that run them.
    pub(crate) fn expect(&self, suite: &str, cases: usize, jobs: usize) {
        let mut state = self.lock();
        state.expected += cases;
        let known = state.suites.entry(suite.to_owned()).or_insert(Suite {
            jobs: 0,
            began: None,
            passed: 0,
            failed: 0,
            cpu: Duration::ZERO,
        });
        known.jobs += jobs;
    }

    /// Announces processes that will announce their cases when they have started.
    pub(crate) fn expect_later(&self, processes: usize) {
        self.lock().unannounced += processes;
    }

    /// A process announces its cases.
    pub(crate) fn announced(&self, cases: usize) {
        let mut state = self.lock();
        state.expected += cases;
        state.unannounced = state.unannounced.saturating_sub(1);
    }

    /// A case, or a process with many of them, begins.
    pub(crate) fn begins(&self, suite: &str, case: &str) {
        self.lock().running.insert(key(suite, case), Instant::now());
    }

    /// A case ends. Its outcome comes with its process.
    pub(crate) fn ends(&self, suite: &str, case: &str, time: Duration) {
        let mut state = self.lock();
        let key = key(suite, case);
        state.running.remove(&key);
        state.times.push((time, key));
    }

    /// A process of a suite ends, with one case or many.
    pub(crate) fn ended(&self, suite: &str, cases: &str, began: Instant, outcome: Outcome) {
        let mut state = self.lock();
        state.running.remove(&key(suite, cases));
        state.passed += outcome.passed;
        state.cpu += outcome.cpu;
        let known = state.suites.get_mut(suite).expect("every suite is announced");
        known.jobs -= 1;
        known.began = known.began.map_or(Some(began), |first| Some(first.min(began)));
        known.passed += outcome.passed;
        known.cpu += outcome.cpu;
        known.failed += outcome.failures.len();
        if known.jobs == 0 {
            let Suite { passed, failed, cpu, .. } = *known;
            let time = seconds(known.began.expect("just set").elapsed());
            let result = if failed == 0 { "ok".to_owned() } else { format!("{failed} FAILED") };
            let cases = passed + failed;
            let cpu = seconds(cpu);
            self.line(&format!("{suite:24} {cases:5} cases  {result:10}  {time}, computing {cpu}"));
        }
        for failure in outcome.failures {
            self.line(&format!("FAILED {} after {}", failure.name, seconds(failure.ended - failure.began)));
            state.failures.push(failure);
        }
    }

    /// Runs a part, whose suites are reported separately. A failure of it is repeated by `command` instead of
    /// `./test`.
    pub(crate) fn part<E>(
        &self,
        command: &str,
        run: impl FnOnce() -> Result<(), E>,
    ) -> Result<PartResult, E> {
        let (passed, failed) = {
            let mut state = self.lock();
            state.suites.clear();
            (state.passed, state.failures.len())
        };
        run()?;
        let mut state = self.lock();
        // Every part covers the same engines.
        state.coverage.clear();
        let passed = state.passed - passed;
        let failures = &mut state.failures[failed..];
        for failure in &mut *failures {
            failure.repeat = failure.repeat.replacen("./test", command, 1);
        }
        Ok(PartResult { passed, failed: failures.iter().map(|failure| failure.name.clone()).collect() })
    }

    /// A line about the cases of an engine, and about those that its guarantees exclude.
    pub(crate) fn covers(&self, line: &str) {
        self.lock().coverage.push(line.to_owned());
    }

    /// The end of the report. Returns whether everything passed.
    pub(crate) fn conclude(&self) -> bool {
        let mut state = self.lock();
        state.running.clear();
        state.coverage.sort();
        if !state.coverage.is_empty() {
            let lines = state.coverage.join("\n");
            self.line(&format!(
                "\nengine, number of its cases, and guarantees that it lacks (cases that need them):\n{lines}"
            ));
        }
        state.times.sort();
        let slowest = state.times.iter().rev().take(SLOWEST);
        let slowest: String = slowest.map(|(time, case)| format!("\n  {}  {case}", seconds(*time))).collect();
        if !slowest.is_empty() {
            self.line(&format!("\nslowest cases:{slowest}"));
        }
        for failure in &state.failures {
            self.line(&format!("\n--- FAILED: {}", failure.name));
            self.line(&last_lines(&failure.output));
            let stops = self.standstills.between(failure.began, failure.ended);
            if !stops.is_empty() {
                let stops: Vec<_> = stops.iter().map(|stop| stop.describe(failure.began)).collect();
                self.line(&format!("the machine stood still during this case: {}", stops.join("; ")));
            }
            self.line(&format!("repeat it with: {}", failure.repeat));
        }
        let mut end = String::new();
        let stops = self.standstills.between(self.started, Instant::now());
        if let Some(longest) = stops.iter().map(|stop| stop.duration).max() {
            let count = stops.len();
            let _ =
                writeln!(end, "the machine stood still {count} times, for up to {} ms", longest.as_millis());
        }
        let (passed, failed) = (state.passed, state.failures.len());
        let cpu = seconds(state.cpu);
        let time = seconds(self.started.elapsed());
        let _ = write!(end, "{passed} passed, {failed} failed in {time}; test processes computed for {cpu}");
        self.line(&format!("\n{end}"));
        failed == 0
    }

    fn lock(&self) -> MutexGuard<'_, ReportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line in place of the progress line, if there is one.
    fn line(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let clear = if self.on_terminal { "\r\x1b[K" } else { "" };
        // A closed stdout is no error: the exit code still has the result.
        let _ = writeln!(io::stdout(), "{clear}{text}");
    }

    fn show_progress(&self) {
        let pause = if self.on_terminal { Duration::from_millis(500) } else { REMINDER };
        loop {
            thread::sleep(pause);
            let state = self.lock();
            let Some((oldest, since)) = state.running.iter().min_by_key(|(_, since)| **since) else {
                continue;
            };
            let (done, time) = (state.times.len(), seconds(self.started.elapsed()));
            let count = match (state.expected, state.unannounced) {
                (0, _) => String::new(),
                (expected, 0) => format!("{done} of {expected} cases, "),
                (expected, _) => format!("{done} of more than {expected} cases, "),
            };
            let line = format!(
                "[{time}] {count}{} running, the longest for {}: {oldest}",
                state.running.len(),
                seconds(since.elapsed())
            );
            if self.on_terminal {
                let line: String = line.chars().take(TERMINAL_WIDTH - 1).collect();
                let mut out = io::stdout();
                let _ = write!(out, "\r\x1b[K{line}");
                let _ = out.flush();
            } else {
                self.line(&line);
            }
        }
    }
}

fn key(suite: &str, case: &str) -> String {
    if suite == "stage" { case.to_owned() } else { format!("{suite} {case}") }
}

pub(crate) fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

fn last_lines(output: &str) -> String {
    let lines: Vec<_> = output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(FAILURE_LINES)..].join("\n")
}
