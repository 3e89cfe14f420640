//! A database for each test, `latch` processes, and helpers to inspect what they leave behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use latchwork::Client;
use latchwork::clock::Clock;
use latchwork::engine::{Filter, LockState};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The time limit of waits: long enough for a loaded machine, short enough to notice a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A folder with a database for one test.
pub(crate) struct TestDir {
    folder: TempDir,
}

impl TestDir {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}", self.path("locks.db").display())
    }

    /// `latch` with these arguments and the database of this directory, without the tester's own settings.
    pub(crate) fn latch<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latch"));
        let known = ["URL_FILE", "URL_REDACTED", "NAME", "TOKEN", "SESSION", "FD", "HELD"];
        for name in known {
            command.env_remove(format!("LATCH_{name}"));
        }
        command
            .args(arguments)
            .env("LATCH_URL", self.url())
            .env("XDG_STATE_HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// `latch run NAME -- sh -c SCRIPT` with further options.
    pub(crate) fn script(&self, name: &str, options: &[&str], script: &str) -> Command {
        let run = ["run", name].into_iter().chain(options.iter().copied());
        self.latch(run.chain(["--", "sh", "-c", script]))
    }

    /// A running `latch` that holds `name`, with the given script running.
    pub(crate) fn hold(&self, name: &str, options: &[&str], script: &str) -> Running {
        let started = self.path(&format!("started-{name}"));
        let script = format!("touch {}; {script}", started.display());
        let child = self.script(name, options, &script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let running = Running::from(child.unwrap());
        eventually("the holder starts", || started.exists());
        running
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The process id that a script wrote to a file.
    pub(crate) fn pid(&self, name: &str) -> Pid {
        eventually("the pid is written", || self.read(name).ends_with('\n'));
        Pid::from_raw(self.read(name).trim().parse().unwrap())
    }

    /// The state of a lock, from the library.
    pub(crate) fn inspect(&self, name: &str) -> Option<LockState> {
        self.with_client(async |client| {
            let filter = Filter::Prefix(name.to_owned());
            client.inspect(&filter).await.unwrap().into_iter().find(|lock| lock.name.as_str() == name)
        })
    }

    pub(crate) fn with_client<T>(&self, work: impl AsyncFnOnce(Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(latchwork::connect(&self.url()).await.unwrap()).await })
    }
}

/// A `latch` process that is killed at the end of its test.
pub(crate) struct Running(Option<Child>);

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Running {
    pub(crate) fn id(&self) -> Pid {
        Pid::from_raw(self.0.as_ref().unwrap().id() as i32)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal::kill(self.id(), signal).unwrap();
    }

    pub(crate) fn finish(mut self) -> Ended {
        Ended::from(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The exit code and the output of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

pub(crate) fn end(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

/// Asserts that stderr is one line of `latch`, followed by at most a hint.
#[track_caller]
pub(crate) fn assert_clean_error(ended: &Ended, code: i32, says: &str) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let lines: Vec<_> = ended.err.lines().collect();
    assert!(lines[0].starts_with("latch: ") && ended.err.contains(says), "{ended:?}");
    assert!(lines.len() == 1 || lines.len() == 2 && lines[1].starts_with("hint: "), "{ended:?}");
    assert!(!ended.err.contains("panicked"), "{ended:?}");
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Clock::boottime().now().after(PATIENCE);
    while !holds() {
        assert!(Clock::boottime().now() < end, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a thread of the process still runs. Its first thread can be a zombie while other threads still
/// end, and keep its files open.
pub(crate) fn runs(id: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let mut states = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim().chars().next()
    });
    states.any(|state| !"ZX".contains(state))
}

/// Processes whose command line contains `text`, with their first argument.
pub(crate) fn running_with(text: &str) -> Vec<(Pid, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    ids.filter(|id| runs(*id))
        .filter_map(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(text).then(|| (id, line.split('\0').next().unwrap_or_default().to_owned()))
        })
        .collect()
}

/// Runs the command as an unprivileged user, with a copy of `latch` that this user may execute.
pub(crate) fn as_nobody(dir: &TestDir, command: &Command) -> Command {
    let copy = dir.path("latch");
    // Copied by another process: a file that this process writes stays open in processes that other tests
    // start meanwhile, and cannot be executed until they end.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_latch")).arg(&copy).status().unwrap().success());
    open_to_all(dir.folder.path());
    open_to_all(&copy);
    let mut other = if nix::unistd::geteuid().is_root() {
        let mut other = Command::new("setpriv");
        other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        other
    } else {
        Command::new(&copy)
    };
    other.args(command.get_args()).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    other.env("LATCH_URL", dir.url());
    other
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
