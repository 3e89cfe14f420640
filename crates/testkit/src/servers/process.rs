//! The process of a server.

use std::env;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// A running server. Killed when dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts the command; its output is appended to the file `output`. `package` is the package to install
    /// if the program is missing. The kernel kills the process when this process ends, for whatever reason.
    pub(crate) fn start(command: &Command, package: &str, output: &Path) -> Self {
        let program = command.get_program();
        assert!(is_installed(program.as_ref()), "{program:?} is missing; install the package {package}");
        let file = File::options().create(true).append(true).open(output).expect("the folder is ours");
        let errors = file.try_clone().expect("a second handle");
        let mut bound = bound_to_parent(command);
        bound.stdin(Stdio::null()).stdout(file).stderr(errors);
        Self { child: spawn(bound).unwrap_or_else(|error| panic!("{program:?} does not start: {error}")) }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Kills the process (`kill -9`) and waits until it has ended. Does nothing if it has ended already.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Stops the process, and waits until it has stopped.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        // `WEXITED` as well, and without reaping the process: a process that has ended never stops.
        let what = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.id()), what).expect("it is our child");
    }

    /// Continues the process.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        kill(self.id(), signal).expect("it is our child");
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.pid() as i32)
    }
}

/// A command for a program that refuses to run as root: as root, it runs as `user` instead.
pub(super) fn unprivileged(user: &str, program: &Path) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).args(["--init-groups", "--"]);
    command.arg(program);
    command
}

/// Wraps the command so that the kernel kills it when the thread that starts it ends.
fn bound_to_parent(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "KILL"]);
    // A change of user clears the signal, so one setpriv does both: it sets the signal last.
    if command.get_program() != "setpriv" {
        bound.arg("--").arg(command.get_program());
    }
    bound.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

/// Starts a process from a thread that ends with this process only. The threads of tests end earlier, and
/// servers are shared by several tests.
fn spawn(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        let serve = move || {
            for (mut command, answer) in orders {
                let _ = answer.send(command.spawn());
            }
        };
        std::thread::Builder::new().name("spawner".into()).spawn(serve).expect("a thread starts");
        sender
    });
    let (answer, answered) = mpsc::channel();
    SPAWNER.send((command, answer)).expect("the spawner lives as long as the process");
    answered.recv().expect("each order is answered")
}

/// Whether the program exists, by its path or in a folder of `PATH`.
fn is_installed(program: &Path) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    program.is_absolute() && program.exists()
        || env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    use latchwork::clock::Clock;

    use super::*;
    use crate::servers::{MariadbOptions, MariadbServer, PostgresOptions, PostgresServer};
    use crate::servers::{RedisOptions, RedisServer};

    /// Set for the process that starts servers and is then killed.
    const HOLDER: &str = "TESTKIT_HOLDS_SERVERS";

    /// The running processes, and their parents.
    fn running() -> Vec<(u32, u32)> {
        let entries = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let with_parent = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let mut fields = stat.rsplit(')').next()?.split_whitespace();
            let (state, parent) = (fields.next()?, fields.next()?);
            (state != "Z").then_some((pid, parent.parse().ok()?))
        };
        pids.filter_map(with_parent).collect()
    }

    /// One server that runs as the current user, and those that change their user when started by root.
    fn hold_servers() -> ! {
        let start = || {
            (
                RedisServer::start(RedisOptions::default()),
                PostgresServer::start(PostgresOptions::default()),
                MariadbServer::start(MariadbOptions::default()),
            )
        };
        // The thread that started the servers ends, and they continue.
        let _servers = std::thread::spawn(start).join().expect("the servers start");
        println!("held");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn servers_end_with_a_test_process_that_is_killed_and_not_with_a_thread() {
        if env::var_os(HOLDER).is_some() {
            hold_servers();
        }
        let mut command = Command::new(env::current_exe().expect("a path"));
        let name =
            "servers::process::tests::servers_end_with_a_test_process_that_is_killed_and_not_with_a_thread";
        command.args([name, "--exact", "--nocapture"]).env(HOLDER, "1").stdout(Stdio::piped());
        let mut holder = command.spawn().expect("the process starts");
        let lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
        let is_ready = |line: &io::Result<String>| line.as_ref().is_ok_and(|line| line.ends_with("held"));
        assert!(lines.into_iter().any(|line| is_ready(&line)), "the servers do not start");
        let mut servers = running();
        servers.retain(|(_, parent)| *parent == holder.id());
        assert_eq!(servers.len(), 3, "a server ended with the thread that started it");
        holder.kill().expect("it is our child");
        holder.wait().expect("it is our child");
        // The kernel has sent the signals; the servers still have to end.
        let end = Clock::boottime().now().after(Duration::from_secs(20));
        loop {
            let left: Vec<_> = running()
                .into_iter()
                .filter(|(pid, _)| servers.iter().any(|(server, _)| server == pid))
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(Clock::boottime().now() < end, "still running: {left:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
