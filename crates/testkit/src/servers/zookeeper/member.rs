//! One member: a Java process, which can be queried, paused, killed and restarted.

use std::io::{Error, Read, Result, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs};

use latchwork::clock::Clock;
use tempfile::TempDir;

use super::{Ports, ZooKeeperOptions};
use crate::servers::port::PortTaken;
use crate::servers::process::Process;
use crate::servers::root::installed;

/// A start takes most of a second of a core.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);
pub(super) const GLANCE: Duration = Duration::from_millis(10);
/// The limit for an answer of a running member.
const PATIENCE: Duration = Duration::from_secs(5);
/// The folder into which Debian's packages put jars, and the jars that a server needs.
const JARS: &str = "usr/share/java";
const NEEDED: [&str; 19] = [
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
    "snappy-java",
    "metrics-core",
    "commons-cli",
    "commons-io",
    "jackson-core",
    "jackson-databind",
    "jackson-annotations",
    // The last one: its manifest adds the machine's own jars after it.
    "zookeeper",
];

/// A member of an ensemble, or a single server.
pub struct ZooKeeperMember {
    folder: TempDir,
    ports: Ports,
    is_secure: bool,
    is_measured: bool,
    process: Mutex<Option<Process>>,
}

impl ZooKeeperMember {
    /// A member that is not started yet, with the ports of itself and of the others.
    pub(super) fn prepare(options: &ZooKeeperOptions, number: usize, all: &[Ports]) -> Self {
        let folder = tempfile::Builder::new().prefix("zookeeper").tempdir().expect("a temporary folder");
        let ports = all[number];
        let file = options.file(&ports, all, folder.path());
        fs::write(folder.path().join("zoo.cfg"), file).expect("the folder is ours");
        fs::write(folder.path().join("myid"), format!("{}\n", number + 1)).expect("the folder is ours");
        let (is_secure, is_measured) = (options.tls.is_some(), options.is_measured);
        Self { folder, ports, is_secure, is_measured, process: Mutex::default() }
    }

    /// The address for clients: with TLS, if the member has it.
    pub fn address(&self) -> SocketAddr {
        let port = if self.is_secure { self.ports.secure } else { self.ports.client };
        Ports::address(port)
    }

    /// The address without TLS.
    pub fn plain_address(&self) -> SocketAddr {
        Ports::address(self.ports.client)
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Stops the process: its connections stay open, but requests are not answered. The process has stopped
    /// when this returns.
    pub fn pause(&self) {
        self.process().as_ref().expect("the process runs").pause();
    }

    /// Ends [`ZooKeeperMember::pause`].
    pub fn resume(&self) {
        self.process().as_ref().expect("the process runs").resume();
    }

    /// Kills the process, if it runs, and starts it with its data, without waiting until it serves clients.
    pub fn start_again(&self) {
        self.kill();
        self.launch();
    }

    /// Restarts the process with its data, and waits until it serves clients.
    ///
    /// # Panics
    /// If it does not in time. The message shows its output.
    pub fn restart(&self) {
        self.start_again();
        assert!(self.until_it_serves().is_ok(), "a port was taken while the server was down");
    }

    /// Restarts the process without its data.
    ///
    /// # Panics
    /// As [`ZooKeeperMember::restart`].
    pub fn restart_empty(&self) {
        self.kill();
        fs::remove_dir_all(self.file("version-2")).expect("the server had data");
        self.restart();
    }

    /// Whether the member has a process.
    pub fn runs(&self) -> bool {
        self.process().is_some()
    }

    /// Whether the member is the leader.
    pub fn is_leader(&self) -> bool {
        self.word("srvr").is_ok_and(|answer| answer.contains("Mode: leader"))
    }

    /// Whether the member serves clients. It listens on its TLS port last.
    pub fn serves(&self) -> bool {
        let answers = self.word("srvr").is_ok_and(|answer| answer.contains("Mode: "));
        answers && TcpStream::connect_timeout(&self.address(), PATIENCE).is_ok()
    }

    /// The answer to a four-letter command.
    ///
    /// # Errors
    /// If there is none.
    pub fn word(&self, word: &str) -> Result<String> {
        let mut connection = TcpStream::connect_timeout(&self.plain_address(), PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.write_all(word.as_bytes())?;
        connection
            .shutdown(Shutdown::Write)
            .or_else(|error: Error| if error.raw_os_error().is_some() { Ok(()) } else { Err(error) })?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// One of the member's metrics.
    ///
    /// # Panics
    /// If it does not answer, or does not have the metric.
    pub fn figure(&self, name: &str) -> u64 {
        let all = self.word("mntr").expect("the process runs");
        let value = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        let value = value.unwrap_or_else(|| panic!("there is no {name} in\n{all}"));
        // Some have decimal places, which are all zero.
        value.split('.').next().and_then(|digits| digits.parse().ok()).expect("a number")
    }

    /// The number of requests since the last start, including heartbeats and the queries of this number.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn requests(&self) -> u64 {
        self.figure("zk_packets_received")
    }

    /// The complete output.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.file("output")).unwrap_or_default()).into_owned()
    }

    pub(super) fn launch(&self) {
        let _ = fs::remove_file(self.file("output"));
        let jars = NEEDED.map(|jar| installed(&format!("{JARS}/{jar}.jar")));
        let missing = jars.iter().find(|jar| !jar.exists());
        assert!(missing.is_none(), "{missing:?} is missing; install the package zookeeper");
        let mut command = Command::new("java");
        command.current_dir(self.folder.path());
        if !self.is_measured {
            // Half of a start is JIT compilation of code that runs once.
            command.arg("-XX:TieredStopAtLevel=1");
        }
        command.args([
            "-Xmx192m",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            &env::join_paths(&jars).expect("no path has a colon").to_string_lossy(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            "./zoo.cfg",
        ]);
        *self.process() = Some(Process::start(&command, "zookeeper", &self.file("output")));
    }

    pub(super) fn until_it_serves(&self) -> std::result::Result<(), PortTaken> {
        let begun = Clock::boottime().now();
        while !self.serves() {
            if self.process().as_mut().is_none_or(Process::has_ended) {
                let output = self.output();
                assert!(output.contains("BindException"), "zookeeper ended:\n{output}");
                return Err(PortTaken);
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "zookeeper does not answer:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that failed during a query must still be able to end the process.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
