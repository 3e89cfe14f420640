//! The child processes of one side in one round: they are started, begin together, and return their samples.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use latchwork::clock::Clock;

use crate::Result;
use crate::peers;
use crate::plan::{Side, Workload, spelled};
use crate::sample::WorkerResult;

/// How long after the start message the window opens: every process must have read the message by then.
const START_DELAY: Duration = Duration::from_millis(10);
/// How long a child may take beyond its window before it counts as stuck.
const STUCK_LIMIT: Duration = Duration::from_secs(30);

/// The options of the child processes.
#[derive(Clone, Copy)]
pub(crate) struct WorkerOptions<'a> {
    /// A build of this program.
    pub(crate) program: &'a Path,
    pub(crate) workload: Workload,
    pub(crate) side: Side,
    pub(crate) folder: &'a Path,
    pub(crate) millis: u64,
    pub(crate) url: Option<&'a str>,
    /// The interpreter, for sides in Python.
    pub(crate) python: Option<&'a Path>,
    /// The program, for distributed-lock on a database.
    pub(crate) sql_peers: Option<&'a Path>,
}

impl WorkerOptions<'_> {
    fn worker_command(&self, index: u32) -> Result<Command> {
        if let (Side::PyRedis | Side::PyRedisLock, Some(python)) = (self.side, self.python) {
            return peers::command(self, python);
        }
        if let (Side::SessionPeer, Some(program)) = (self.side, self.sql_peers) {
            return peers::sql_command(self, program);
        }
        let mut command = Command::new(self.program);
        command.arg("worker").arg("--folder").arg(self.folder);
        command.args(["--workload", &spelled(self.workload), "--side", &spelled(self.side)]);
        command.args(["--index", &index.to_string(), "--millis", &self.millis.to_string()]);
        command.args(self.url.into_iter().flat_map(|url| ["--url", url]));
        Ok(command)
    }
}

/// An event of one child, from the thread that reads its output.
enum WorkerEvent {
    Ready,
    Done(usize, Result<Vec<u8>>),
}

/// Child processes, which are killed with the drop of this value.
pub(crate) struct WorkerProcesses {
    children: Vec<Child>,
    events: Receiver<WorkerEvent>,
    limit: Duration,
}

impl WorkerProcesses {
    /// Starts all children and returns when they are ready.
    pub(crate) fn start(options: &WorkerOptions<'_>) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let limit = Duration::from_millis(options.millis) + STUCK_LIMIT;
        let mut workers = Self { children: Vec::new(), events, limit };
        for index in 0..options.workload.processes() {
            workers.spawn(options.worker_command(index)?, &sender)?;
            // One after the other: the first creates the files, and raw floors have no protection against two
            // that do.
            match workers
                .events
                .recv_timeout(STUCK_LIMIT)
                .map_err(|_| "a child process does not get ready")?
            {
                WorkerEvent::Ready => {}
                WorkerEvent::Done(..) => return Err("a child process ended before it was ready".into()),
            }
        }
        Ok(workers)
    }

    /// Starts the measurement, and returns the result of each child.
    pub(crate) fn run(mut self) -> Result<Vec<WorkerResult>> {
        self.send_start()?;
        self.collect()
    }

    fn spawn(&mut self, mut command: Command, sender: &Sender<WorkerEvent>) -> Result<()> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdout, number, sender) = (child.stdout.take(), self.children.len(), sender.clone());
        self.children.push(child);
        std::thread::spawn(move || listen(stdout, number, &sender));
        Ok(())
    }

    fn send_start(&mut self) -> Result<()> {
        let start = Clock::boottime().now().after(START_DELAY).as_micros();
        for child in &mut self.children {
            let stdin = child.stdin.as_mut().ok_or("a child process has no input")?;
            writeln!(stdin, "{start}")?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<WorkerResult>> {
        let mut results: Vec<_> = self.children.iter().map(|_| WorkerResult::default()).collect();
        for _ in 0..self.children.len() {
            if let WorkerEvent::Done(number, bytes) =
                self.events.recv_timeout(self.limit).map_err(|_| "a child process is stuck")?
            {
                results[number] = WorkerResult::read(&bytes?)?;
            }
        }
        for child in &mut self.children {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("a child process failed: {status}").into());
            }
        }
        Ok(results)
    }
}

impl Drop for WorkerProcesses {
    fn drop(&mut self) {
        for child in &mut self.children {
            // An error means that it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads the output of one child: a byte when it is ready, then its result.
fn listen(stdout: Option<ChildStdout>, number: usize, sender: &Sender<WorkerEvent>) {
    let Some(mut stdout) = stdout else { return };
    let mut bytes = Vec::new();
    let ready = stdout.read_exact(&mut [0]);
    // The receiver is gone only after another child has failed.
    if ready.is_ok() {
        let _ = sender.send(WorkerEvent::Ready);
    }
    let done = ready.and_then(|()| stdout.read_to_end(&mut bytes));
    let _ = sender.send(WorkerEvent::Done(number, done.map(|_| bytes).map_err(Into::into)));
}
