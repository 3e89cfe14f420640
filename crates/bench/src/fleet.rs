//! The child processes of one side in one round: started, let go together, and heard.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use latchwork::clock::Clock;

use crate::Result;
use crate::plan::{Side, Workload, spelled};
use crate::turn::Tally;

/// How long after the word "go" the window opens: every process must have read it by then.
const HEAD_START: Duration = Duration::from_millis(10);
/// How long a child may take beyond its window before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// One child's life as its reader sees it.
enum News {
    Ready,
    Done(usize, Result<Vec<u8>>),
}

/// Runs one side with `program`, a build of this one, and returns what each process brings home.
pub(crate) fn run(
    program: &Path,
    workload: Workload,
    side: Side,
    folder: &Path,
    millis: u64,
) -> Result<Vec<Tally>> {
    let (sender, news) = mpsc::channel();
    let mut fleet = Fleet { program, children: Vec::new() };
    for index in 0..workload.processes() {
        fleet.start(workload, side, index, folder, millis, &sender)?;
        // One after the other: the first makes the files, and raw floors have nothing that keeps two from doing so.
        match news.recv_timeout(PATIENCE).map_err(|_| "a child process does not get ready")? {
            News::Ready => {}
            News::Done(..) => return Err("a child process ended before it was ready".into()),
        }
    }
    fleet.let_go()?;
    fleet.collect(&news, Duration::from_millis(millis) + PATIENCE)
}

/// Children that do not outlive this value.
struct Fleet<'a> {
    program: &'a Path,
    children: Vec<Child>,
}

impl Fleet<'_> {
    fn start(
        &mut self,
        workload: Workload,
        side: Side,
        index: u32,
        folder: &Path,
        millis: u64,
        sender: &Sender<News>,
    ) -> Result<()> {
        let mut command = Command::new(self.program);
        command.arg("worker").arg("--folder").arg(folder);
        command.args(["--workload", &spelled(workload), "--side", &spelled(side)]);
        command.args(["--index", &index.to_string(), "--millis", &millis.to_string()]);
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

    fn collect(&mut self, news: &Receiver<News>, patience: Duration) -> Result<Vec<Tally>> {
        let mut tallies: Vec<_> = self.children.iter().map(|_| Tally::default()).collect();
        for _ in 0..self.children.len() {
            if let News::Done(number, bytes) =
                news.recv_timeout(patience).map_err(|_| "a child process is stuck")?
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

impl Drop for Fleet<'_> {
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
