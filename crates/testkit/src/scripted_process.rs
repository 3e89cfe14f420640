//! A process that executes commands line by line and answers each with one line.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixListener;
use tokio::process::{Child, Command};

use crate::shim::{self, Clocks};
use crate::worker_process::binary;

/// The limit for an answer; a process that exceeds it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The API that the process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `latchwork::blocking`, outside a runtime.
    Blocking,
    /// The async API, inside a current-thread runtime.
    Async,
}

/// A running `scripted_process`, or a fork of one. Killed when dropped, except for a fork: that ends when its
/// command channel closes.
pub struct ScriptedProcess {
    child: Option<Child>,
    stdin: Box<dyn AsyncWrite + Unpin + Send>,
    stdout: Lines<BufReader<Box<dyn AsyncRead + Unpin + Send>>>,
}

impl ScriptedProcess {
    /// Starts a process that uses the engine at `url`; its `sync()` forks.
    pub fn start(url: &str, api: Api) -> Self {
        Self::spawn(url, api, |command| {
            command.env("LD_PRELOAD", shim::fork());
        })
    }

    /// Starts a process whose clocks can be moved.
    pub fn with_clocks(url: &str, clocks: &Clocks) -> Self {
        Self::spawn(url, Api::Blocking, |command| {
            let (name, value) = clocks.variable();
            command.env("LD_PRELOAD", clocks.library()).env(name, value);
        })
    }

    fn spawn(url: &str, api: Api, prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(binary("scripted_process"));
        prepare(&mut command);
        let api = if api == Api::Blocking { "blocking" } else { "async" };
        command.args([url, api]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the process starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self::new(Some(child), stdin, stdout)
    }

    fn new(
        child: Option<Child>,
        stdin: impl AsyncWrite + Unpin + Send + 'static,
        stdout: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let stdout: Box<dyn AsyncRead + Unpin + Send> = Box::new(stdout);
        Self { child, stdin: Box::new(stdin), stdout: BufReader::new(stdout).lines() }
    }

    /// Sends a command and returns the answer.
    pub async fn ask(&mut self, command: &str) -> String {
        self.tell(command).await;
        self.answer().await
    }

    /// Sends a command that the process may not be able to read at once.
    pub async fn tell(&mut self, command: &str) {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await.expect("the process reads its input");
        self.stdin.flush().await.expect("the process reads its input");
    }

    /// The answer to the oldest command that was not answered yet.
    ///
    /// # Panics
    /// If the process ended, or hangs.
    pub async fn answer(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line()).await;
        line.expect("the process does not hang").expect("the pipe works").expect("the process is alive")
    }

    /// Makes the process fork, and returns the child.
    pub async fn fork(&mut self) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("the folder is ours");
        assert_eq!(self.ask(&format!("fork {}", socket.display())).await, "parent");
        let (stream, _) = tokio::time::timeout(PATIENCE, listener.accept())
            .await
            .expect("the process forks")
            .expect("the socket works");
        let (stdout, stdin) = stream.into_split();
        Self::new(None, stdin, stdout)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().and_then(Child::id).expect("the process runs and is not a fork");
        kill(Pid::from_raw(pid as i32), signal).expect("the process runs");
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub async fn kill(&mut self) {
        self.child.as_mut().expect("the process is not a fork").kill().await.expect("the process runs");
    }

    /// Sends a command that ends the process, and waits until it has ended.
    pub async fn end(mut self, command: &str) -> ExitStatus {
        self.tell(command).await;
        let mut child = self.child.take().expect("the process is not a fork");
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        ended.expect("the process does not hang").expect("the process runs")
    }

    /// Sends a command that ends the fork. Only its parent can learn the exit status.
    pub async fn end_fork(mut self, command: &str) {
        self.tell(command).await;
    }
}
