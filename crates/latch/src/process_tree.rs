//! The processes of a command: those of its group, and those outside it that have its mark in their
//! environment.

use std::fs;
use std::time::Duration;

use latchwork::clock::{self, Clock};
use nix::sys::signal::{self, Signal};
use nix::unistd::{self, Pid};

/// The environment variable that marks a command's processes. Nested runs append their marks after a colon.
pub(crate) const MARK_VARIABLE: &str = "LATCH_SESSION";

/// A random mark, unique to a run.
pub(crate) fn new_mark() -> String {
    format!("{:016x}", u64::from_ne_bytes(clock::random_bytes()))
}

/// Every process of one command.
pub(crate) struct ProcessTree {
    pub(crate) group: Pid,
    pub(crate) mark: String,
    /// A member of the group, but not a process of the command.
    pub(crate) guardian: Pid,
}

impl ProcessTree {
    /// Sends a signal to the group, and to the command itself if it left the group, as an interactive shell
    /// does.
    pub(crate) fn signal(&self, command: Pid, signal: Signal) {
        let _ = signal::killpg(self.group, signal);
        if unistd::getpgid(Some(command)).is_ok_and(|group| group != self.group) {
            let _ = signal::kill(command, signal);
        }
    }

    /// Whether any process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        processes().any(|process| self.includes(&process))
    }

    /// Kills the processes one by one, because the guardian must survive. Returns whether there were any.
    pub(crate) fn kill(&self) -> bool {
        let members: Vec<_> = processes().filter(|process| self.includes(process)).collect();
        for member in &members {
            let _ = signal::kill(member.id, Signal::SIGKILL);
        }
        !members.is_empty()
    }

    /// As [`ProcessTree::kill`], but kills the whole group first with one signal. That includes the guardian,
    /// which is not needed any more: `latch` is alive.
    pub(crate) fn kill_at_once(&self, command: Pid) -> bool {
        self.signal(command, Signal::SIGKILL);
        self.kill()
    }

    /// Kills until no process is left, or for `limit`: a process that hangs in the kernel must not be waited
    /// for forever.
    pub(crate) fn kill_until_gone(&self, limit: Duration) {
        const PAUSE: Duration = Duration::from_millis(2);
        let end = Clock::boottime().now().after(limit);
        let mut empty_scans = 0;
        // Two empty scans: a scan of /proc is no snapshot, and a process that forks and exits may be missed
        // by one.
        while empty_scans < 2 && Clock::boottime().now() < end {
            empty_scans = if self.kill() { 0 } else { empty_scans + 1 };
            std::thread::sleep(PAUSE);
        }
    }

    fn includes(&self, process: &Process) -> bool {
        process.id != self.guardian
            && process.runs
            && (process.group == self.group || has_mark(process.id, &self.mark))
    }
}

/// Whether any process of a group still runs. Cheap if none does.
pub(crate) fn group_runs(group: Pid) -> bool {
    signal::killpg(group, None).is_ok() && processes().any(|process| process.group == group && process.runs)
}

/// The start time of a running process, in clock ticks since boot. Together with the id it identifies the
/// process.
pub(crate) fn start_of(id: Pid) -> Option<u64> {
    look_up(id.as_raw()).filter(|process| process.runs).map(|process| process.started)
}

struct Process {
    id: Pid,
    group: Pid,
    started: u64,
    /// `false` for dead processes and zombies.
    runs: bool,
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(look_up)
}

fn look_up(id: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name is in parentheses and may itself contain any character, parentheses included.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    let runs = !matches!(state, "Z" | "X");
    Some(Process { id: Pid::from_raw(id), group: Pid::from_raw(group), started, runs })
}

fn has_mark(id: Pid, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    let value =
        variables.find_map(|variable| variable.strip_prefix(MARK_VARIABLE.as_bytes())?.strip_prefix(b"="));
    value.is_some_and(|value| value.split(|byte| *byte == b':').any(|part| part == mark.as_bytes()))
}
