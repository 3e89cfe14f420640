//! The child processes of one side in one round: started, let go together, and heard.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use latchwork::clock::Clock;

use crate::Result;
use crate::peers;
use crate::plan::{Side, Workload, spelled};
use crate::turn::Tally;

/// How long after the word "go" the window opens: every process must have read it by then.
const HEAD_START: Duration = Duration::from_millis(10);
/// How long a child may take beyond its window before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the children are to do.
#[derive(Clone, Copy)]
pub(crate) struct Orders<'a> {
    /// A build of this program.
    pub(crate) program: &'a Path,
    pub(crate) workload: Workload,
    pub(crate) side: Side,
    pub(crate) folder: &'a Path,
    pub(crate) millis: u64,
    pub(crate) url: Option<&'a str>,
    /// For the sides that are written in it.
    pub(crate) python: Option<&'a Path>,
    /// For distributed-lock on a database.
    pub(crate) sql_peers: Option<&'a Path>,
}

impl Orders<'_> {
    fn command(&self, index: u32) -> Result<Command> {
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

/// One child's life as its reader sees it.
enum News {
    Ready,
    Done(usize, Result<Vec<u8>>),
}

/// Children that do not outlive this value.
pub(crate) struct Fleet {
    children: Vec<Child>,
    news: Receiver<News>,
    patience: Duration,
}

impl Fleet {
    /// Starts all children and returns when they are ready.
    pub(crate) fn start(orders: &Orders<'_>) -> Result<Self> {
        let (sender, news) = mpsc::channel();
        let patience = Duration::from_millis(orders.millis) + PATIENCE;
        let mut fleet = Self { children: Vec::new(), news, patience };
        for index in 0..orders.workload.processes() {
            fleet.start_one(orders.command(index)?, &sender)?;
            // One after the other: the first makes the files, and raw floors have nothing that keeps two from doing so.
            match fleet.news.recv_timeout(PATIENCE).map_err(|_| "a child process does not get ready")? {
                News::Ready => {}
                News::Done(..) => return Err("a child process ended before it was ready".into()),
            }
        }
        Ok(fleet)
    }

    /// Lets them go, and returns what each brings home.
    pub(crate) fn run(mut self) -> Result<Vec<Tally>> {
        self.let_go()?;
        self.collect()
    }

    fn start_one(&mut self, mut command: Command, sender: &Sender<News>) -> Result<()> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (stdout, number, sender) = (child.stdout.take(), self.children.len(), sender.clone());
        self.children.push(child);
        std::thread::spawn(move || listen(stdout, number, &sender));
        Ok(())
    }

    fn let_go(&mut self) -> Result<()> {
        let start = Clock::boottime().now().after(HEAD_START).as_micros();
        for child in &mut self.children {
            let stdin = child.stdin.as_mut().ok_or("a child process has no input")?;
            writeln!(stdin, "{start}")?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<Tally>> {
        let mut tallies: Vec<_> = self.children.iter().map(|_| Tally::default()).collect();
        for _ in 0..self.children.len() {
            if let News::Done(number, bytes) =
                self.news.recv_timeout(self.patience).map_err(|_| "a child process is stuck")?
            {
                tallies[number] = Tally::read(&bytes?)?;
            }
        }
        for child in &mut self.children {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("a child process failed: {status}").into());
            }
        }
        Ok(tallies)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in &mut self.children {
            // An error means that it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads one child: a byte when it is ready, then its tally.
fn listen(stdout: Option<ChildStdout>, number: usize, sender: &Sender<News>) {
    let Some(mut stdout) = stdout else { return };
    let mut bytes = Vec::new();
    let ready = stdout.read_exact(&mut [0]);
    // Nobody listens any more only after another child failed.
    if ready.is_ok() {
        let _ = sender.send(News::Ready);
    }
    let done = ready.and_then(|()| stdout.read_to_end(&mut bytes));
    let _ = sender.send(News::Done(number, done.map(|_| bytes).map_err(Into::into)));
}
