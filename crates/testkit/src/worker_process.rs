//! Child processes that hold and wait for locks, and can be killed.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::shim::Clocks;

/// A running `worker_process`. Killed when dropped.
pub struct WorkerProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Its standard error. It is kept apart because it would be lost among the output of other cases.
    errors: File,
}

impl WorkerProcess {
    /// `worker_process turns`, for the load of [`crate::requests`].
    pub fn turns() -> std::process::Command {
        let mut command = std::process::Command::new(binary("worker_process"));
        command.arg("turns");
        command
    }

    /// Starts `worker_process ARGS`.
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(args, |_| {})
    }

    /// Starts `worker_process ARGS`, whose clocks can be moved.
    pub fn with_clocks(args: &[&str], clocks: &Clocks) -> Self {
        Self::spawn(args, |command| {
            let (name, value) = clocks.variable();
            command.env("LD_PRELOAD", clocks.library()).env(name, value);
        })
    }

    fn spawn(args: &[&str], prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(binary("worker_process"));
        prepare(&mut command);
        let errors = tempfile::tempfile().expect("a temporary file");
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command.stderr(errors.try_clone().expect("a second handle"));
        let mut child = command.spawn().expect("the worker starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines, errors }
    }

    /// The next line of its output.
    ///
    /// # Panics
    /// If the process ended.
    pub async fn line(&mut self) -> String {
        let line = self.lines.next_line().await.expect("the pipe works");
        line.unwrap_or_else(|| panic!("the worker prints no line; its errors:\n{}", self.errors()))
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process was not reaped")
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid() as i32), signal).expect("the process runs");
    }

    /// Stops the process, and waits until each of its threads has stopped. A thread that is about to get a
    /// lock from the kernel still gets it before.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        // `WEXITED` as well: a process that has ended never stops.
        let what = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(Pid::from_raw(self.pid() as i32)), what).expect("it is our child");
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("the process runs");
    }

    /// Waits until the process ends by itself, successfully.
    pub async fn done(&mut self) {
        let status = self.child.wait().await.expect("the process runs");
        assert!(status.success(), "the worker ended with {status}; its errors:\n{}", self.errors());
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        self.errors.rewind().expect("a file");
        self.errors.read_to_string(&mut text).expect("a file with text");
        text
    }
}

/// The path of a binary of this crate. cargo puts it beside the folder of the test binary.
pub(crate) fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("tests run from target/<profile>/deps");
    folder.join(name)
}
