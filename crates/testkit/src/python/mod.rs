//! Programs in Python that lock with somebody else's library.

mod venv;

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Where `history.py` is, which such programs share.
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/python");
/// No answer takes longer, but to a game of many turns.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program that does what it is told: one order per line in, one answer per line out. Killed when dropped.
pub struct Script {
    _child: Child,
    ears: ChildStdin,
    mouth: Lines<BufReader<ChildStdout>>,
}

impl Script {
    /// Starts a program that needs this release of a package (`redis==8.1.0`).
    ///
    /// # Panics
    /// If the machine has no Python, or the package cannot be had.
    pub fn start(package: &str, program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(venv::python(package));
        command.arg(program).args(args);
        command.env("PYTHONPATH", SHARED).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("Python starts");
        let (ears, mouth) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { _child: child, ears, mouth: BufReader::new(mouth).lines() }
    }

    /// Tells it something, and returns its answer. See the top of the program.
    pub async fn ask(&mut self, order: &str) -> String {
        self.tell(order).await;
        self.answer().await
    }

    /// Tells it something that it needs a while for.
    ///
    /// # Panics
    /// If it has ended.
    pub async fn tell(&mut self, order: &str) {
        self.ears.write_all(format!("{order}\n").as_bytes()).await.expect("it listens");
    }

    /// Its answer to the oldest thing it was told and has not answered.
    pub async fn answer(&mut self) -> String {
        self.answer_within(PATIENCE).await
    }

    /// The same, to something that takes long.
    ///
    /// # Panics
    /// If there is none.
    pub async fn answer_within(&mut self, patience: Duration) -> String {
        self.said_within(patience).await.expect("it does not hang")
    }

    /// The next thing it says, if it says something in time.
    ///
    /// # Cancel safety
    /// What was not returned is returned next time.
    ///
    /// # Panics
    /// If it has ended.
    pub async fn said_within(&mut self, patience: Duration) -> Option<String> {
        let line = tokio::time::timeout(patience, self.mouth.next_line()).await.ok()?;
        Some(line.expect("the pipe works").expect("it lives"))
    }
}
