//! Python programs that lock with other libraries.

mod venv;

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The folder of `history.py`, which these programs share.
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/python");
/// The limit for an answer, except for a run of many turns.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program that executes commands: one command per line in, one answer per line out. Killed when
/// dropped.
pub struct Script {
    _child: Child,
    ears: ChildStdin,
    mouth: Lines<BufReader<ChildStdout>>,
}

impl Script {
    /// Starts a program that needs this release of a package (`redis==8.1.0`).
    ///
    /// # Panics
    /// If Python is missing, or the package cannot be installed.
    pub fn start(package: &str, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(venv::python(package));
        command.arg(program).args(args);
        command.env("PYTHONPATH", SHARED).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("Python starts");
        let (ears, mouth) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { _child: child, ears, mouth: BufReader::new(mouth).lines() }
    }

    /// Sends a command and returns the answer. The commands are described at the top of the program.
    pub async fn ask(&mut self, order: &str) -> String {
        self.tell(order).await;
        self.answer().await
    }

    /// Sends a command that takes a while.
    ///
    /// # Panics
    /// If the program has ended.
    pub async fn tell(&mut self, order: &str) {
        self.ears.write_all(format!("{order}\n").as_bytes()).await.expect("the process reads its input");
    }

    /// The answer to the oldest command that was not answered yet.
    pub async fn answer(&mut self) -> String {
        self.answer_within(PATIENCE).await
    }

    /// The answer to a command that takes long.
    ///
    /// # Panics
    /// If there is no answer in time.
    pub async fn answer_within(&mut self, patience: Duration) -> String {
        self.said_within(patience).await.expect("the process does not hang")
    }

    /// The next line of output, if one arrives in time.
    ///
    /// # Cancel safety
    /// A line that was not returned is returned next time.
    ///
    /// # Panics
    /// If the program has ended.
    pub async fn said_within(&mut self, patience: Duration) -> Option<String> {
        let line = tokio::time::timeout(patience, self.mouth.next_line()).await.ok()?;
        Some(line.expect("the pipe works").expect("the process is alive"))
    }
}
