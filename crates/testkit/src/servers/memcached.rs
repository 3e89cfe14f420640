//! A memcached server of one test: the real one, which can be queried, paused, killed and restarted.

use std::fs;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

use super::Identity;
use super::port::free_port;
use super::process::Process;

/// A start takes a thirtieth of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// The interval at which the server is polled for an answer.
const GLANCE: Duration = Duration::from_millis(2);
/// The limit for an answer to the server's owner.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The number of ports to try before the start fails.
const MOST_PORTS: u32 = 20;

/// The configuration of a server. The default is a server with plenty of memory.
#[derive(Clone, Default)]
pub struct MemcachedOptions {
    /// Further arguments: `["-m", "2"]`.
    pub arguments: Vec<String>,
    /// Accepts only TLS, and only clients with a certificate of this authority.
    pub tls: Option<MemcachedTls>,
}

/// The files of a server with TLS.
#[derive(Clone, Debug)]
pub struct MemcachedTls {
    /// The authority that signed the certificates of clients.
    pub ca: PathBuf,
    /// The server's certificate.
    pub identity: Identity,
}

/// A running `memcached` on a port of 127.0.0.1. Killed when dropped.
pub struct MemcachedServer {
    folder: TempDir,
    port: u16,
    /// The owner's port, which is always without TLS.
    admin: u16,
    options: MemcachedOptions,
    process: Mutex<Option<Process>>,
}

impl MemcachedServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If it does not answer in time. The message shows the server's output.
    pub fn start(options: MemcachedOptions) -> Self {
        for _ in 0..MOST_PORTS {
            let folder = tempfile::Builder::new().prefix("memcached").tempdir().expect("a temporary folder");
            let port = free_port();
            let admin = if options.tls.is_some() { free_port() } else { port };
            let server = Self { folder, port, admin, options: options.clone(), process: Mutex::default() };
            if server.launch() {
                return server;
            }
        }
        panic!("{MOST_PORTS} times, a free port was taken before the start");
    }

    /// The address for clients; it stays the same across restarts.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Kills the process, if it runs, and restarts it on the same port. All data is lost.
    ///
    /// # Panics
    /// As [`MemcachedServer::start`].
    pub fn restart(&self) {
        self.kill();
        let begun = Clock::boottime().now();
        while !self.launch() {
            // Another test that looks for a free port may have taken it.
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "port {} was taken while the server was down", self.port);
            std::thread::sleep(GLANCE);
        }
    }

    /// Stops the process: its connections stay open, but requests are not answered. The process has stopped
    /// when this returns.
    pub fn pause(&self) {
        self.process().as_ref().expect("the process runs").pause();
    }

    /// Ends [`MemcachedServer::pause`].
    pub fn resume(&self) {
        self.process().as_ref().expect("the process runs").resume();
    }

    /// Sends one command, and returns its answer up to the last line, `\r\n` included.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn command(&self, command: &str) -> String {
        self.ask(command).unwrap_or_else(|error| panic!("no answer to {command:?}: {error}"))
    }

    /// One value of the server's statistics, such as `evictions`.
    ///
    /// # Panics
    /// If there is no value with this name.
    pub fn stat(&self, name: &str) -> u64 {
        let stats = self.command("stats");
        let line =
            stats.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// The first line of the answer to `mg`; `None` if the key does not exist.
    pub fn item(&self, key: &str) -> Option<String> {
        Some(self.command(&format!("mg {key} v c t"))).filter(|answer| answer != "EN\r\n")
    }

    /// Deletes everything that was stored before this call. `flush_all` itself spares items that are less
    /// than a second old.
    pub fn flush(&self) {
        assert!(self.command("ms %testkit:flushed 1 T0\r\nx").starts_with("HD"));
        while self.item("%testkit:flushed").is_some() {
            assert_eq!(self.command("flush_all"), "OK\r\n");
            std::thread::sleep(GLANCE * 10);
        }
    }

    fn ask(&self, command: &str) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.admin))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        // The reply to the following `mn` marks the end of the answer.
        stream.write_all(format!("{command}\r\nmn\r\n").as_bytes())?;
        let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
        while !answer.ends_with(b"MN\r\n") {
            match stream.read(&mut chunk)? {
                0 => return Err(Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
                length => answer.extend_from_slice(&chunk[..length]),
            }
        }
        answer.truncate(answer.len() - b"MN\r\n".len());
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// The id of the process that answers: another test's server may have taken the port first.
    fn pid(&self) -> Option<u32> {
        let stats = self.ask("stats").ok()?;
        stats.lines().find_map(|line| line.strip_prefix("STAT pid "))?.parse().ok()
    }

    /// Starts the process and waits until it answers. False if its port is taken.
    fn launch(&self) -> bool {
        let output = self.folder.path().join("output");
        let _ = fs::remove_file(&output);
        let printed = || String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
        let mut process = Process::start(&self.start_command(), "memcached", &output);
        let begun = Clock::boottime().now();
        while self.pid() != Some(process.pid()) {
            if process.has_ended() {
                let printed = printed();
                assert!(printed.contains("Address already in use"), "memcached ended:\n{printed}");
                return false;
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "memcached does not answer:\n{}", printed());
            std::thread::sleep(GLANCE);
        }
        *self.process() = Some(process);
        true
    }

    fn start_command(&self) -> Command {
        let mut command = Command::new("memcached");
        // memcached refuses to run as root, and two threads are enough.
        command.args(["-u", "nobody", "-U", "0", "-t", "2"]);
        match &self.options.tls {
            None => command.args(["-l", &format!("127.0.0.1:{}", self.port)]),
            Some(MemcachedTls { ca, identity }) => {
                let listen = format!("127.0.0.1:{},notls:127.0.0.1:{}", self.port, self.admin);
                let [ca, certificate, key] =
                    [ca, &identity.certificate, &identity.key].map(|path| path.display());
                let files =
                    format!("ssl_ca_cert={ca},ssl_chain_cert={certificate},ssl_key={key},ssl_verify_mode=2");
                command.args(["-l", &listen, "-Z", "-o", &files])
            }
        };
        command.args(&self.options.arguments);
        command
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that failed must still be able to end the process.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_answers_loses_its_data_on_restart_and_ends_when_dropped() {
        let server = MemcachedServer::start(MemcachedOptions::default());
        assert_eq!(server.command("ms a 1 T0 c\r\nx"), "HD c1\r\n");
        assert!(server.item("a").is_some() && server.stat("cmd_set") == 1);
        server.flush();
        assert_eq!(server.item("a"), None);
        server.command("ms a 1 T0\r\nx");
        server.restart();
        assert_eq!((server.item("a"), server.command("ms b 1 T0 c\r\nx").as_str()), (None, "HD c1\r\n"));
        server.pause();
        server.resume();
        let address = server.address();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }
}
