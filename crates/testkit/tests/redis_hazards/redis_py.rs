//! A process that locks with redis-py.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::scene::{LOCK, Scene};
use super::venv::python;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis_hazards/redis_py.py");
/// No answer takes longer, but to a game of many turns.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `redis_py.py`, whose only lock is [`LOCK`]. Killed when dropped.
pub(crate) struct RedisPy {
    _child: Child,
    ears: ChildStdin,
    mouth: Lines<BufReader<ChildStdout>>,
}

impl RedisPy {
    /// Starts one whose leases are so long.
    pub(crate) fn start(scene: &Scene, lease: Duration) -> Self {
        let mut command = Command::new(python());
        command.args([PROGRAM, &scene.server.port().to_string(), LOCK, &lease.as_secs_f64().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("Python starts");
        let (ears, mouth) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { _child: child, ears, mouth: BufReader::new(mouth).lines() }
    }

    /// Tells it something, and returns its answer. See the top of `redis_py.py`.
    pub(crate) async fn ask(&mut self, order: &str) -> String {
        self.tell(order).await;
        self.answer().await
    }

    /// Tells it something that it needs a while for.
    pub(crate) async fn tell(&mut self, order: &str) {
        self.ears.write_all(format!("{order}\n").as_bytes()).await.expect("it listens");
    }

    /// Its answer to the oldest thing it was told and has not answered.
    pub(crate) async fn answer(&mut self) -> String {
        self.answer_within(PATIENCE).await
    }

    /// The same, to something that takes long.
    pub(crate) async fn answer_within(&mut self, patience: Duration) -> String {
        let line = tokio::time::timeout(patience, self.mouth.next_line()).await;
        line.expect("it does not hang").expect("the pipe works").expect("it lives")
    }
}
