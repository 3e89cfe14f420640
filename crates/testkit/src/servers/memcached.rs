//! A memcached of one test: the real one, which can be asked, stopped, killed and started again.

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
/// How often it is looked whether it answers.
const GLANCE: Duration = Duration::from_millis(2);
/// How long it may take to answer its owner.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How many ports are tried before somebody must look into it.
const MOST_PORTS: u32 = 20;

/// How a server is set up. The default is one with plenty of memory.
#[derive(Clone, Default)]
pub struct MemcachedOptions {
    /// Further arguments: `["-m", "2"]`.
    pub arguments: Vec<String>,
    /// Speaks nothing but TLS, and with nobody who has no certificate of this authority.
    pub tls: Option<MemcachedTls>,
}

/// The files of a server that speaks TLS.
#[derive(Clone, Debug)]
pub struct MemcachedTls {
    /// Who signed the certificates of clients.
    pub ca: PathBuf,
    /// The server's certificate.
    pub identity: Identity,
}

/// A running `memcached` on a port of 127.0.0.1. Killed when dropped.
pub struct MemcachedServer {
    folder: TempDir,
    port: u16,
    /// Its owner's, which never speaks TLS.
    admin: u16,
    options: MemcachedOptions,
    process: Mutex<Option<Process>>,
}

impl MemcachedServer {
    /// Starts one and waits until it answers.
    ///
    /// # Panics
    /// If it does not; with what it printed.
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
        panic!("{MOST_PORTS} ports were free and taken the next moment");
    }

    /// Where it listens, from the first start to the last.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Kills it, if it runs, and starts it on the same port. It has forgotten everything.
    ///
    /// # Panics
    /// As [`MemcachedServer::start`].
    pub fn restart(&self) {
        self.kill();
        let begun = Clock::boottime().now();
        while !self.launch() {
            // Whoever has it now may be another test that looks for a free port.
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "port {} was taken while the server was down", self.port);
            std::thread::sleep(GLANCE);
        }
    }

    /// Stops the process: its connections stay open, and nobody answers. It stands still when this returns.
    pub fn pause(&self) {
        self.process().as_ref().expect("it runs").pause();
    }

    /// Ends [`MemcachedServer::pause`].
    pub fn resume(&self) {
        self.process().as_ref().expect("it runs").resume();
    }

    /// Sends one command, and returns what is answered within its last line, `\r\n` included.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn command(&self, command: &str) -> String {
        self.ask(command).unwrap_or_else(|error| panic!("no answer to {command:?}: {error}"))
    }

    /// A figure of its statistics: `evictions`.
    ///
    /// # Panics
    /// If it has none of this name.
    pub fn stat(&self, name: &str) -> u64 {
        let stats = self.command("stats");
        let line =
            stats.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// The first line that it answers to `mg`: none if nothing is there.
    pub fn item(&self, key: &str) -> Option<String> {
        Some(self.command(&format!("mg {key} v c t"))).filter(|answer| answer != "EN\r\n")
    }

    /// Forgets everything that it was told before this call. `flush_all` itself spares what is not a second old.
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
        // What is behind it says where its answer ends.
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

    /// The process that answers: another test's may be faster to take the port.
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
        // It refuses to be root, and two threads are enough.
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
    fn a_server_answers_forgets_when_it_restarts_and_is_gone_when_dropped() {
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
