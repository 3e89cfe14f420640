//! An etcd server of one test: the real `etcd`, alone or as a member of a cluster, which can be queried,
//! paused, killed and restarted.

mod cluster;
mod etcdctl;
mod figures;
mod member_address;
mod options;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

pub use cluster::EtcdCluster;
pub use etcdctl::Etcdctl;
pub use options::{EtcdOptions, EtcdTls};

use super::pool::Pooled;
use super::port::PortTaken;
use super::process::Process;
use figures::Figures;
use member_address::MemberAddress;

/// A start takes a quarter of a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The interval at which the server is polled.
const GLANCE: Duration = Duration::from_millis(5);
/// The number of sets of ports to try before the start fails.
const MOST_PORTS: u32 = 20;
/// The limit for a metric of a healthy server. It includes a health check, which takes a commit.
const PATIENCE: Duration = Duration::from_secs(2);

/// No lease is shorter than one and a half election timeouts, rounded up to whole seconds. These are the
/// longest timeouts that allow leases of one second.
const PACE: [&str; 2] = ["--heartbeat-interval=50", "--election-timeout=650"];

/// A running `etcd` on ports of 127.0.0.1, in a folder of its own. Killed when dropped.
pub struct EtcdServer {
    folder: TempDir,
    place: MemberAddress,
    options: EtcdOptions,
    process: Mutex<Option<Process>>,
}

impl EtcdServer {
    /// Starts a single server, and waits until it is healthy.
    ///
    /// # Panics
    /// If it does not become healthy. The message shows its output.
    pub fn start(options: EtcdOptions) -> Self {
        for _ in 0..MOST_PORTS {
            let server = Self::prepare(MemberAddress::new("alone".to_owned()), options.clone());
            if server.launch().is_ok() {
                server.close();
                return server;
            }
        }
        panic!("{MOST_PORTS} times, free ports were taken before the start");
    }

    /// A server that is not started yet.
    fn prepare(place: MemberAddress, options: EtcdOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("etcd").tempdir().expect("a temporary folder");
        Self { folder, place, options, process: Mutex::default() }
    }

    /// The address for clients; it stays the same across restarts.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.place.client).into()
    }

    /// The server's options.
    pub fn options(&self) -> &EtcdOptions {
        &self.options
    }

    /// The server's folder, with its data and output.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process id.
    ///
    /// # Panics
    /// If it was killed.
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("the process runs").pid()
    }

    /// The output since the last start.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.file("output")).unwrap_or_default()).into_owned()
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub fn kill(&self) {
        self.place.pid.store(0, Ordering::Relaxed);
        *self.process() = None;
    }

    /// Kills the process, if it runs, and restarts it on the same ports with its data. A single server is
    /// healthy after that. A member of a cluster runs, but may need other members to be healthy.
    ///
    /// # Panics
    /// As [`EtcdServer::start`].
    pub fn restart(&self) {
        self.kill();
        let begun = Clock::boottime().now();
        while self.launch().is_err() {
            // Another test that looks for a free port may have taken it.
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "a port was taken while the server was down:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
    }

    /// Kills the process, if it runs, and restarts it on the same ports without any data.
    ///
    /// # Panics
    /// As [`EtcdServer::start`]. Also if it is a member of a cluster: it would break the protocol, because it
    /// has voted before and does not know it any more.
    pub fn restart_empty(&self) {
        assert!(self.place.is_alone(), "a member must not lose its data");
        self.kill();
        fs::remove_dir_all(self.file("data")).expect("the server had data");
        self.restart();
        self.close();
    }

    /// Stops the process, and waits until it has stopped. Connections stay open, and the system accepts new
    /// ones.
    ///
    /// # Panics
    /// If it was killed.
    pub fn pause(&self) {
        self.process().as_ref().expect("the process runs").pause();
    }

    /// Continues the process.
    ///
    /// # Panics
    /// If it was killed.
    pub fn resume(&self) {
        self.process().as_ref().expect("the process runs").resume();
    }

    /// Runs `etcdctl` on this server, with all rights: `["get", "--prefix", ""]`.
    ///
    /// # Panics
    /// If it fails. The message shows its output.
    pub fn etcdctl(&self, words: &[&str]) -> String {
        self.owner().run(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// `etcdctl` with all rights, which trusts the server with any certificate.
    pub fn owner(&self) -> Etcdctl {
        owner(&[self.address()], &self.options)
    }

    /// `etcdctl` without user or certificate.
    pub fn anybody(&self) -> Etcdctl {
        Etcdctl::new(&[self.address()], &self.options)
    }

    /// The number of calls of these methods that were answered since the last start: `["Txn", "LeaseGrant"]`.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn calls(&self, methods: &[&str]) -> u64 {
        let figures = self.figures(PATIENCE).expect("it answers");
        let labels: Vec<_> = methods.iter().map(|method| format!("grpc_method=\"{method}\"")).collect();
        figures.sum("grpc_server_handled_total", &labels.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Whether the server reports that it is the leader; false if it does not answer.
    pub fn leads(&self) -> bool {
        let answer = self.figures(PATIENCE / 4);
        answer.is_ok_and(|figures| figures.is_set("etcd_server_is_leader"))
    }

    /// Whether the server reports that it knows a leader; false if it does not answer.
    pub fn knows_leader(&self) -> bool {
        let answer = self.figures(PATIENCE / 4);
        answer.is_ok_and(|figures| figures.is_set("etcd_server_has_leader"))
    }

    /// Whether the server has a process, which may be stopped.
    pub fn runs(&self) -> bool {
        self.process().as_mut().is_some_and(|process| !process.has_ended())
    }

    fn figures(&self, patience: Duration) -> std::io::Result<Figures> {
        Figures::read(self.place.figures, patience)
    }

    fn health(&self) -> std::io::Result<String> {
        figures::get(self.place.figures, "/health", PATIENCE)
    }

    /// Starts the process and waits until it can be used.
    fn launch(&self) -> Result<(), PortTaken> {
        self.spawn();
        self.until(|server| match server.place.is_alone() {
            true => server.is_healthy(),
            false => server.health().is_ok(),
        })
    }

    fn spawn(&self) {
        let output = self.file("output");
        let _ = fs::remove_file(&output);
        let process = Process::start(&self.command(), "etcd-server", &output);
        self.place.pid.store(process.pid(), Ordering::Relaxed);
        *self.process() = Some(process);
    }

    fn command(&self) -> Command {
        let mut command = etcdctl::clean("etcd");
        command.arg(format!("--data-dir={}", self.file("data").display()));
        command.args(self.place.arguments(self.options.scheme()));
        command.args(["--logger=zap", "--log-level=error"]).args(PACE);
        // Data must survive a kill of the server, not of the machine; and a well-known password needs no slow
        // hash.
        command.args(["--unsafe-no-fsync", "--bcrypt-cost=4"]);
        command.args(self.options.tls.iter().flat_map(EtcdTls::arguments));
        command.args(&self.options.arguments);
        command
    }

    /// Waits until the server satisfies a condition.
    fn until(&self, so: impl Fn(&Self) -> bool) -> Result<(), PortTaken> {
        let begun = Clock::boottime().now();
        while !so(self) {
            if !self.runs() {
                let output = self.output();
                assert!(output.contains("address already in use"), "etcd ended:\n{output}");
                return Err(PortTaken);
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "etcd is not ready:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// Enables authentication on a new server, if its options say so.
    fn close(&self) {
        close(&[self.address()], &self.options);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that failed during a query must still be able to end the process.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pooled for EtcdServer {
    /// Healthy means that it has a leader, and can commit.
    fn is_healthy(&self) -> bool {
        self.health().is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }
}

fn owner(addresses: &[SocketAddr], options: &EtcdOptions) -> Etcdctl {
    let somebody = somebody(addresses, options);
    if options.grant.is_some() { somebody.user(EtcdOptions::ROOT) } else { somebody }
}

/// A client with a certificate if one is required, and without a user.
fn somebody(addresses: &[SocketAddr], options: &EtcdOptions) -> Etcdctl {
    let anybody = Etcdctl::new(addresses, options);
    match &options.tls {
        Some(tls) => anybody.trusting_anybody().identity(&tls.certificates.client()),
        None => anybody,
    }
}

fn close(addresses: &[SocketAddr], options: &EtcdOptions) {
    if let Some(prefix) = &options.grant {
        somebody(addresses, options).close_to_all_but(prefix);
    }
}
