//! The processes of a command: its group, and those that left the group but carry its mark.

use std::fs;
use std::time::Duration;

use latchwork::clock::{self, Clock};
use nix::sys::signal::{self, Signal};
use nix::unistd::{self, Pid};

/// The environment variable that marks a command's processes; nested runs append theirs after a colon.
pub(crate) const MARK_VARIABLE: &str = "LATCH_SESSION";

/// Draws a mark that no other run has.
pub(crate) fn new_mark() -> String {
    format!("{:016x}", u64::from_ne_bytes(clock::random_bytes()))
}

/// Every process of one command.
pub(crate) struct ProcessTree {
    pub(crate) group: Pid,
    pub(crate) mark: String,
    /// The guardian lives in the group and is none of the command's.
    pub(crate) guardian: Pid,
}

impl ProcessTree {
    /// Sends a signal to the group, and to the command itself if it left the group (an interactive shell does).
    pub(crate) fn signal(&self, command: Pid, signal: Signal) {
        let _ = signal::killpg(self.group, signal);
        if unistd::getpgid(Some(command)).is_ok_and(|group| group != self.group) {
            let _ = signal::kill(command, signal);
        }
    }

    /// Whether any process is left that could still do something.
    pub(crate) fn is_alive(&self) -> bool {
        processes().any(|process| self.includes(&process))
    }

    /// Kills whatever is there, one by one (the guardian must live on). Returns whether there was anything.
    pub(crate) fn kill(&self) -> bool {
        let members: Vec<_> = processes().filter(|process| self.includes(process)).collect();
        for member in &members {
            let _ = signal::kill(member.id, Signal::SIGKILL);
        }
        !members.is_empty()
    }

    /// As [`ProcessTree::kill`], but the group first and in one stroke, guardian included: `latch` lives and
    /// needs it no more.
    pub(crate) fn kill_at_once(&self, command: Pid) -> bool {
        self.signal(command, Signal::SIGKILL);
        self.kill()
    }

    /// Kills until nothing is left, or for `at_most`: what is stuck in the kernel must not be waited for forever.
    pub(crate) fn kill_until_gone(&self, at_most: Duration) {
        const PAUSE: Duration = Duration::from_millis(2);
        let end = Clock::boottime().now().after(at_most);
        let mut calm = 0;
        // Twice calm: a look at /proc is no snapshot, and a process that forks and exits can slip through one.
        while calm < 2 && Clock::boottime().now() < end {
            calm = if self.kill() { 0 } else { calm + 1 };
            std::thread::sleep(PAUSE);
        }
    }

    fn includes(&self, process: &Process) -> bool {
        process.id != self.guardian
            && process.runs
            && (process.group == self.group || has_mark(process.id, &self.mark))
    }
}

/// Whether anything still runs in a group. Cheap when nothing does.
pub(crate) fn group_runs(group: Pid) -> bool {
    signal::killpg(group, None).is_ok() && processes().any(|process| process.group == group && process.runs)
}

/// When a process that runs was started, in ticks since the boot: with its id, which process it is.
pub(crate) fn start_of(id: Pid) -> Option<u64> {
    look_up(id.as_raw()).filter(|process| process.runs).map(|process| process.started)
}

struct Process {
    id: Pid,
    group: Pid,
    started: u64,
    /// Neither dead nor a zombie.
    runs: bool,
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(look_up)
}

fn look_up(id: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name stands in parentheses and may contain anything, also parentheses.
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
