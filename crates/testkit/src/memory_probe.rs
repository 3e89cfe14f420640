//! Processes that use locks under attack or failure, with limited memory or with a count of their allocated
//! bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::shim;

/// A running `memory_probe` process. Killed when dropped.
pub struct MemoryProbe {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
}

impl MemoryProbe {
    /// Starts a process for the engine at `url`, not connected, that may allocate at most `megabytes`.
    pub fn with_little_memory(url: &str, megabytes: u64) -> Self {
        let mut command = Command::new("sh");
        let limit = format!("ulimit -d {}; exec \"$0\" \"$@\"", megabytes * 1_024);
        command.args(["-c", &limit]).arg(binary()).arg(url);
        Self::spawn(command, tempfile::tempdir().expect("a temporary folder"))
    }

    /// Starts a process, not connected, whose allocated bytes are counted.
    pub fn counted(url: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let count = folder.path().join("count");
        File::create(&count).and_then(|file| file.set_len(8)).expect("the folder is ours");
        let mut command = Command::new(binary());
        command.arg(url).env("LD_PRELOAD", shim::heap()).env("TESTKIT_HEAP", count);
        Self::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: TempDir) -> Self {
        let errors = File::create(folder.path().join("errors")).expect("the folder is ours");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).kill_on_drop(true);
        let mut child = command.spawn().expect("the process starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { _child: child, stdin, stdout: BufReader::new(stdout).lines(), folder }
    }

    /// Sends it a command, and returns its answer.
    ///
    /// # Panics
    /// If it ended, or does not answer within that time.
    pub async fn ask(&mut self, command: &str, within: Duration) -> String {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await.expect("the process reads its input");
        let line = tokio::time::timeout(within, self.stdout.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("{command}: no answer within {within:?}"));
        line.expect("the pipe works").unwrap_or_else(|| panic!("{command}: it ended, {}", self.errors()))
    }

    /// Its standard error so far.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).expect("the file is ours")
    }

    /// The number of bytes that it has allocated and not freed, if they are counted.
    pub fn living_bytes(&self) -> i64 {
        let (mut bytes, count) = ([0; 8], File::open(self.folder.path().join("count")));
        count.and_then(|count| count.read_exact_at(&mut bytes, 0)).expect("the bytes are counted");
        i64::from_ne_bytes(bytes)
    }
}

/// The path of the binary. cargo puts it beside the folder of the test binary.
fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("tests run from target/<profile>/deps");
    folder.join("memory_probe")
}
