//! A Redis server of one test: the real `redis-server`, which can be queried, paused, killed and restarted.

mod options;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

pub use options::{RedisOptions, RedisTls};

use super::port::{PortTaken, free_port};
use super::process::Process;
use super::resp::{Reply, Resp};

/// A start takes a twentieth of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The interval at which the server is polled with PING.
const GLANCE: Duration = Duration::from_millis(2);
/// The number of ports to try before the start fails.
const MOST_PORTS: u32 = 20;

/// A running `redis-server` on a port of 127.0.0.1, in a folder of its own. Killed when dropped.
pub struct RedisServer {
    folder: TempDir,
    port: u16,
    environment: Vec<(&'static str, PathBuf)>,
    running: Mutex<Running>,
}

/// The process, if it runs, and the connection for commands.
#[derive(Default)]
struct Running {
    process: Option<Process>,
    admin: Option<Resp>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If it does not answer in time. The message shows its output.
    pub fn start(options: RedisOptions<'_>) -> Self {
        for _ in 0..MOST_PORTS {
            let server = Self::prepare(&options);
            if server.launch().is_ok() {
                return server;
            }
        }
        panic!("{MOST_PORTS} times, a free port was taken before the start");
    }

    /// A server that is not started yet.
    fn prepare(options: &RedisOptions<'_>) -> Self {
        let folder = tempfile::Builder::new().prefix("redis").tempdir().expect("a temporary folder");
        let port = free_port();
        let socket = folder.path().join("redis.sock");
        fs::write(folder.path().join("redis.conf"), options.file(port, folder.path(), &socket))
            .expect("the folder is ours");
        let environment = options.clocks.map_or_else(Vec::new, |clocks| {
            vec![("LD_PRELOAD", clocks.library().to_owned()), clocks.variable()]
        });
        Self { folder, port, environment, running: Mutex::default() }
    }

    /// The port on 127.0.0.1; it stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The Unix socket that it listens on as well.
    pub fn socket(&self) -> PathBuf {
        self.file("redis.sock")
    }

    /// The server's folder, with its configuration, data and output.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id.
    ///
    /// # Panics
    /// If it was killed.
    pub fn pid(&self) -> u32 {
        self.running().process.as_ref().expect("the process runs").pid()
    }

    /// The output since the last start.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.file("output")).unwrap_or_default()).into_owned()
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub fn kill(&self) {
        *self.running() = Running::default();
    }

    /// Kills the process, if it runs, and restarts it on the same port with the data in its files.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn restart(&self) {
        self.kill();
        let begun = Clock::boottime().now();
        while self.launch().is_err() {
            // Another test that looks for a free port may have taken it.
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "port {} was taken while the server was down", self.port);
            std::thread::sleep(GLANCE);
        }
    }

    /// Kills the process, if it runs, and restarts it on the same port without any data.
    ///
    /// # Panics
    /// As [`RedisServer::start`].
    pub fn restart_empty(&self) {
        self.kill();
        let _ = fs::remove_file(self.file("dump.rdb"));
        let _ = fs::remove_dir_all(self.file("appendonlydir"));
        self.restart();
    }

    /// Stops the process: its connections stay open, but requests are not answered. The process has stopped
    /// when this returns.
    pub fn pause(&self) {
        self.running().process.as_ref().expect("the process runs").pause();
    }

    /// Ends [`RedisServer::pause`].
    pub fn resume(&self) {
        self.running().process.as_ref().expect("the process runs").resume();
    }

    /// Sends a command as a user with all rights, through a connection of its own on the Unix socket, and
    /// returns the reply, which may be an error.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn command(&self, words: &[&str]) -> Reply {
        let mut running = self.running();
        let answer = match running.admin.as_mut().map(|admin| admin.ask(words)) {
            Some(Ok(reply)) => Ok(reply),
            // The peer closed the connection, for example because of CLIENT KILL.
            Some(Err(_)) | None => self.admin().and_then(|admin| running.admin.insert(admin).ask(words)),
        };
        answer.unwrap_or_else(|error| {
            running.admin = None;
            panic!("no answer to {words:?}: {error}")
        })
    }

    /// The number of calls of these commands since the last start, by name: `["evalsha", "script|load"]`. The
    /// calls of scripts count as well.
    pub fn calls(&self, commands: &[&str]) -> u64 {
        self.sum_of("calls", commands)
    }

    /// The time that these commands took in the server, without reading and writing. The calls of a script
    /// count as well, and once more in the script's own time.
    pub fn time_in(&self, commands: &[&str]) -> Duration {
        Duration::from_micros(self.sum_of("usec", commands))
    }

    fn sum_of(&self, figure: &str, commands: &[&str]) -> u64 {
        let info = self.command(&["INFO", "commandstats"]).text();
        let counted = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let ours = counted.filter(|(command, _)| commands.contains(command));
        let value = |figures: &str| {
            let mut figures = figures.split(',').filter_map(|figure| figure.split_once('='));
            figures.find(|(name, _)| *name == figure).and_then(|(_, value)| value.parse::<u64>().ok())
        };
        ours.map(|(_, figures)| value(figures).expect("a line of figures")).sum()
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> std::result::Result<(), PortTaken> {
        let mut command = Command::new("redis-server");
        command.arg(self.file("redis.conf")).envs(self.environment.iter().cloned());
        let output = self.file("output");
        let _ = fs::remove_file(&output);
        let mut process = Process::start(&command, "redis-server", &output);
        let begun = Clock::boottime().now();
        while !self.answers() {
            if process.has_ended() {
                let output = self.output();
                assert!(output.contains("Address already in use"), "redis-server ended:\n{output}");
                return Err(PortTaken);
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "redis-server does not answer:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
        self.running().process = Some(process);
        Ok(())
    }

    fn answers(&self) -> bool {
        self.admin().and_then(|mut admin| admin.ask(&["PING"])).is_ok_and(|reply| reply.is("PONG"))
    }

    fn admin(&self) -> Result<Resp> {
        let mut connection = Resp::unix(&self.socket())?;
        connection.ask(&["AUTH", options::ADMIN[0], options::ADMIN[1]])?;
        Ok(connection)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // A test that failed during a query must still be able to end the process.
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
