//! A PostgreSQL server of one test: the real `postgres`, which can be queried, paused, killed and restarted.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

use super::certificates::{Certificates, Identity};
use super::pool::Pooled;
use super::port::{PortTaken, free_port};
use super::process::{Process, unprivileged};
use super::root::installed;
use super::sql_session::SqlSession;
use crate::plain_sql_client::SqlServer;
use crate::shim::Clocks;

/// A start takes a tenth of a second on an idle machine, and the creation of the data directory a whole one.
const START_LIMIT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(10);
/// The number of ports to try before the start fails.
const MOST_PORTS: u32 = 20;
/// The superuser, without a password.
const OWNER: &str = "owner";

/// A running `postgres` on a port of 127.0.0.1, in a folder of its own. Killed when dropped.
pub struct PostgresServer {
    folder: TempDir,
    port: u16,
    environment: Vec<(&'static str, PathBuf)>,
    is_measured: bool,
    most_connections: u32,
    process: Mutex<Option<Process>>,
}

/// The options of a server.
#[derive(Clone, Copy)]
pub struct PostgresOptions<'a> {
    /// Clocks that can be moved.
    pub clocks: Option<&'a Clocks>,
    /// Uses production settings: every commit goes to the disk, and statements are not counted.
    pub is_measured: bool,
    /// The connection limit. The default is 100, of which three are reserved for superusers.
    pub most_connections: u32,
    /// The server's certificate and its authority. Then the user `app` with the password `s3cr@t` needs TLS
    /// and a certificate of the same authority. It has no rights on tables yet, and may not create any.
    pub tls: Option<(&'a Certificates, &'a Identity)>,
}

impl Default for PostgresOptions<'_> {
    fn default() -> Self {
        Self { clocks: None, is_measured: false, most_connections: 500, tls: None }
    }
}

impl PostgresServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If it does not answer in time. The message shows its output.
    pub fn start(options: PostgresOptions<'_>) -> Self {
        let folder = tempfile::Builder::new().prefix("postgres").tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        let environment = options.clocks.map_or_else(Vec::new, |clocks| {
            vec![("LD_PRELOAD", clocks.library().to_owned()), clocks.variable()]
        });
        let PostgresOptions { is_measured, most_connections, .. } = options;
        let mut server =
            Self { folder, port: 0, environment, is_measured, most_connections, process: Mutex::default() };
        server.make_data();
        if let Some((certificates, identity)) = options.tls {
            server.set_up_tls(certificates, identity);
        }
        for _ in 0..MOST_PORTS {
            server.port = free_port();
            if server.launch().is_ok() {
                if options.tls.is_some() {
                    server.psql("CREATE USER app PASSWORD 's3cr@t'");
                }
                return server;
            }
        }
        panic!("{MOST_PORTS} times, a free port was taken before the start");
    }

    /// The address for clients; it stays the same across restarts.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL with the user and the database that tests use.
    pub fn url(&self, address: SocketAddr, options: &str) -> String {
        format!("postgres://{OWNER}@{address}/postgres?{options}")
    }

    /// The server's folder, with its data and output.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The output since the last start.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.file("output")).unwrap_or_default()).into_owned()
    }

    /// Kills the process (`kill -9`) and waits until it has ended.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Kills the process, if it runs, and restarts it on the same port with its data.
    ///
    /// # Panics
    /// As [`PostgresServer::start`].
    pub fn restart(&self) {
        self.kill();
        let begun = Clock::boottime().now();
        while self.launch().is_err() {
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "the server does not restart:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
    }

    /// The output of `psql` for this SQL, with all rights.
    ///
    /// # Panics
    /// If it fails. The message shows its output.
    pub fn psql(&self, sql: &str) -> String {
        self.ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The number of statements since the last start, without those of [`PostgresServer::psql`].
    pub fn statements(&self) -> u64 {
        self.output().lines().filter(|line| line.contains("LOG:  execute ")).count() as u64
    }

    /// A session with all rights.
    ///
    /// # Panics
    /// If the command `psql` cannot be started.
    pub fn session(&self) -> SqlSession {
        SqlSession::start(self.command())
    }

    fn try_psql(&self, sql: &str) -> std::process::Output {
        let output = self.command().args(["-c", sql]).output();
        output.expect("psql starts; it is in the package postgresql-client")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("psql");
        command.args(["-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-U", OWNER, "-d", "postgres"]);
        command.args(["-p", &self.port.to_string()]).env_remove("PGOPTIONS").env("PGCONNECT_TIMEOUT", "5");
        command
    }

    fn make_data(&self) {
        let mut command = as_postgres("initdb");
        command.arg("-D").arg(self.file("data"));
        command.args(["-A", "trust", "-U", OWNER, "--no-sync", "--locale=C.UTF-8", "--encoding=UTF8"]);
        let made = command.output().expect("initdb starts");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn set_up_tls(&self, certificates: &Certificates, identity: &Identity) {
        let Identity { certificate, key } = identity;
        let files = [(&certificates.ca(), "ca.pem"), (certificate, "cert.pem"), (key, "key.pem")];
        for (from, name) in files {
            let to = self.file("data").join(name);
            fs::copy(from, &to).expect("the folder is ours");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).expect("the file is ours");
            let data = fs::metadata(self.file("data")).expect("the path exists");
            std::os::unix::fs::chown(&to, Some(data.uid()), Some(data.gid())).expect("the file is ours");
        }
        let settings =
            "ssl = on\nssl_cert_file = 'cert.pem'\nssl_key_file = 'key.pem'\nssl_ca_file = 'ca.pem'\n";
        let rules = "host all owner 127.0.0.1/32 trust\n\
                     hostssl all app 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n";
        fs::write(self.file("data").join("postgresql.auto.conf"), settings).expect("the folder is ours");
        fs::write(self.file("data").join("pg_hba.conf"), rules).expect("the folder is ours");
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), PortTaken> {
        let output = self.file("output");
        let _ = fs::remove_file(&output);
        let mut command = as_postgres("postgres");
        command.arg("-D").arg(self.file("data")).args(["-p", &self.port.to_string()]);
        // Data must survive a kill of the server, not of the machine. Every statement is logged, so that the
        // statements can be counted.
        let counted = if self.is_measured { &[][..] } else { &["fsync=off", "log_statement=all"] };
        let always = ["listen_addresses=127.0.0.1", "unix_socket_directories="];
        for setting in always.iter().chain(counted) {
            command.args(["-c", setting]);
        }
        command.args(["-c", &format!("max_connections={}", self.most_connections)]);
        command.envs(self.environment.iter().cloned());
        let mut process = Process::start(&command, "postgresql", &output);
        let begun = Clock::boottime().now();
        while !self.try_psql("SELECT 1").status.success() {
            if process.has_ended() {
                let output = self.output();
                // The child processes of a server that was killed end a moment later than the server itself.
                let taken = ["Address already in use", "postmaster.pid", "pre-existing shared memory block"];
                assert!(taken.iter().any(|reason| output.contains(reason)), "postgres ended:\n{output}");
                return Err(PortTaken);
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "postgres does not answer:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
        *self.process() = Some(process);
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

impl SqlServer for PostgresServer {
    fn ask(&self, sql: &str) -> Result<String, String> {
        let output = self.try_psql(sql);
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    fn ago(millis: u64) -> String {
        format!("clock_timestamp() - interval '{millis} milliseconds'")
    }
}

impl Pooled for PostgresServer {
    fn is_healthy(&self) -> bool {
        self.try_psql("SELECT 1").status.success()
    }
}

/// A program of the package postgresql, whose programs are not in `PATH`.
fn as_postgres(program: &str) -> Command {
    let versions =
        fs::read_dir(installed("usr/lib/postgresql")).expect("the package postgresql is installed");
    let mut programs: Vec<_> =
        versions.filter_map(|version| Some(version.ok()?.path().join("bin").join(program))).collect();
    programs.sort();
    unprivileged("postgres", &programs.pop().expect("the package postgresql is installed"))
}
