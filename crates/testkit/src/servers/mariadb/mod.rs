//! A MariaDB server of one test: the real `mariadbd`, or MySQL's `mysqld`, which can be queried, killed and
//! restarted.

mod product;

use product::Product;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

use super::certificates::{Certificates, Identity};
use super::pool::Pooled;
use super::port::{PortTaken, free_port};
use super::process::{Process, unprivileged};
use super::sql_session::SqlSession;
use crate::plain_sql_client::SqlServer;
use crate::shim::Clocks;

/// A start takes less than a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(10);
/// The number of ports to try before the start fails.
const MOST_PORTS: u32 = 20;
/// The package mariadb-server depends on it.
const GALERA: &str = "--wsrep-provider=/usr/lib/galera/libgalera_smm.so";
/// The user `owner` has all rights on the database `locks`, and none on the server; `app` may enter the
/// database, and has no rights on our tables.
const PEOPLE: &str = "CREATE DATABASE locks; CREATE TABLE locks.door (x INT); \
                      CREATE USER owner@'127.0.0.1'; GRANT ALL ON locks.* TO owner@'127.0.0.1'; \
                      CREATE USER app@'127.0.0.1' IDENTIFIED BY 's3cr@t'; GRANT SELECT ON locks.door TO app@'127.0.0.1'";

/// A running `mariadbd` on a port of 127.0.0.1, in a folder of its own. Killed when dropped.
pub struct MariadbServer {
    folder: TempDir,
    port: u16,
    environment: Vec<(&'static str, PathBuf)>,
    is_measured: bool,
    has_tls: bool,
    is_roomy: bool,
    product: Product,
    /// The port for the other members of its cluster.
    cluster: Option<u16>,
    process: Mutex<Option<Process>>,
}

/// The options of a server.
#[derive(Clone, Copy, Default)]
pub struct MariadbOptions<'a> {
    /// Clocks that can be moved.
    pub clocks: Option<&'a Clocks>,
    /// Uses production settings: every commit goes to the disk.
    pub is_measured: bool,
    /// Allows more concurrent clients than the default.
    pub is_roomy: bool,
    /// Is the only member of a Galera cluster.
    pub is_clustered: bool,
    /// The server's certificate and its authority. Then the user `app` with the password `s3cr@t` needs TLS
    /// and a certificate of the same authority.
    pub tls: Option<(&'a Certificates, &'a Identity)>,
}

impl MariadbServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// If it does not answer in time. The message shows its output.
    pub fn start(options: MariadbOptions<'_>) -> Self {
        let folder = tempfile::Builder::new().prefix("mariadb").tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        let passing = folder.path().join("tmp");
        fs::create_dir(&passing).expect("the folder is ours");
        fs::set_permissions(&passing, fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        let environment = options.clocks.map_or_else(Vec::new, |clocks| {
            vec![("LD_PRELOAD", clocks.library().to_owned()), clocks.variable()]
        });
        let MariadbOptions { is_measured, is_roomy, .. } = options;
        let (has_tls, cluster, process) = (options.tls.is_some(), None, Mutex::default());
        let product = Product::installed();
        let mut server =
            Self { folder, port: 0, environment, is_measured, has_tls, is_roomy, product, cluster, process };
        server.make_data();
        if let Some((certificates, identity)) = options.tls {
            server.copy_identity(certificates, identity);
        }
        for _ in 0..MOST_PORTS {
            server.port = free_port();
            server.cluster = options.is_clustered.then(free_port);
            if server.launch().is_ok() {
                server.sql(PEOPLE);
                server.product.let_in(&server);
                if has_tls {
                    server.sql("ALTER USER app@'127.0.0.1' REQUIRE X509");
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
        format!("mariadb://owner@{address}/locks?{options}")
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
    /// As [`MariadbServer::start`].
    pub fn restart(&self) {
        self.kill();
        let begun = Clock::boottime().now();
        while self.launch().is_err() {
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "the server does not restart:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
        self.product.let_in(self);
    }

    /// The output of the command `mariadb` for this SQL, in the database `locks`, with all rights.
    ///
    /// # Panics
    /// If it fails. The message shows its output.
    pub fn sql(&self, sql: &str) -> String {
        self.ask(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The number of statements with values and of commits since the last start.
    pub fn statements(&self) -> u64 {
        self.counts(&["Com_stmt_execute", "Com_commit"])
    }

    /// The greatest number of concurrent connections since the last start.
    pub fn most_connections(&self) -> u64 {
        self.counts(&["Max_used_connections"])
    }

    /// Ends every connection but those of the command `mariadb`, as an operator would.
    pub fn end_connections(&self) {
        let threads = self.sql(self.product.connections());
        for thread in threads.lines() {
            // The connection may have ended by itself.
            self.try_sql(&format!("KILL {thread}"));
        }
    }

    /// The number of deadlocks since the last start.
    pub fn deadlocks(&self) -> u64 {
        self.sum(self.product.deadlocks())
    }

    /// The running times of the statements of clients in milliseconds, if above 100.
    pub fn statement_times(&self) -> Vec<u64> {
        let times = self.sql(self.product.statement_times());
        times.lines().map(|millis| millis.parse().expect("a number")).collect()
    }

    fn counts(&self, names: &[&str]) -> u64 {
        let names = names.join("', '");
        self.sum(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ('{names}')"))
    }

    /// The sum of the second column.
    fn sum(&self, sql: &str) -> u64 {
        self.sql(sql).lines().filter_map(|row| row.split('\t').nth(1)?.parse::<u64>().ok()).sum()
    }

    /// Starts the command without waiting for it. Its output can be read when it has ended.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn sql_in_background(&self, sql: &str) -> Child {
        self.command(sql).stdout(Stdio::piped()).spawn().expect("mariadb starts")
    }

    fn try_sql(&self, sql: &str) -> Output {
        self.command(sql).output().expect("mariadb starts; it is in the package mariadb-client")
    }

    /// A session with all rights, in the database `locks`.
    ///
    /// # Panics
    /// If the command `mariadb` cannot be started.
    pub fn session(&self) -> SqlSession {
        SqlSession::start(self.command_in("locks"))
    }

    /// A session of the user of the tests' clients.
    ///
    /// # Panics
    /// As [`MariadbServer::session`].
    pub fn owner_session(&self) -> SqlSession {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=owner", "--host=127.0.0.1", "--batch", "--skip-column-names"]);
        command.args(["--unbuffered", "--connect-timeout=5", &format!("--port={}", self.port), "locks"]);
        SqlSession::start(command)
    }

    /// A session that continues after a statement is refused.
    ///
    /// # Panics
    /// As [`MariadbServer::session`].
    pub fn forgiving_session(&self) -> SqlSession {
        let mut command = self.command_in("locks");
        command.arg("--force").stderr(Stdio::null());
        SqlSession::start(command)
    }

    fn command(&self, sql: &str) -> Command {
        // The database does not exist yet when the first of these statements are executed.
        let mut command = self.command_in(if sql == PEOPLE || sql == "SELECT 1" { "mysql" } else { "locks" });
        command.args(["-e", sql]);
        command
    }

    fn command_in(&self, database: &str) -> Command {
        let mut command = Command::new("mariadb");
        command.args([
            "--no-defaults",
            "--user=root",
            "--batch",
            "--skip-column-names",
            "--unbuffered",
            "--connect-timeout=5",
        ]);
        command.arg("--socket").arg(self.socket()).arg(database);
        command
    }

    fn make_data(&self) {
        let mut command = self.product.data_maker();
        command.args(as_mysql()).args(self.places());
        let made = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn copy_identity(&self, certificates: &Certificates, identity: &Identity) {
        let Identity { certificate, key } = identity;
        for (from, name) in [(&certificates.ca(), "ca.pem"), (certificate, "cert.pem"), (key, "key.pem")] {
            let to = self.file(name);
            fs::copy(from, &to).expect("the folder is ours");
            // The server reads the file as another user.
            fs::set_permissions(&to, fs::Permissions::from_mode(0o644)).expect("the file is ours");
        }
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), PortTaken> {
        let output = self.file("output");
        let _ = fs::remove_file(&output);
        let mut command = unprivileged("mysql", self.product.program());
        command.arg("--no-defaults").args(self.product.options());
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve"]);
        command.args(self.places()).arg(format!("--port={}", self.port));
        command.arg(format!("--socket={}", self.socket().display())).arg(self.setting("pid-file", "pid"));
        if !self.is_measured {
            // Data must survive a kill of the server, not of the machine.
            command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M"]);
        }
        if self.is_roomy {
            command.arg("--max-connections=400");
        }
        if let Some(port) = self.cluster {
            command.args([
                "--wsrep-on=ON",
                "--wsrep-cluster-address=gcomm://",
                "--wsrep-node-address=127.0.0.1",
            ]);
            command.args(["--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", GALERA]);
            command.arg(format!("--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port}"));
        }
        if self.has_tls {
            let files = [("ssl-ca", "ca.pem"), ("ssl-cert", "cert.pem"), ("ssl-key", "key.pem")];
            command.args(files.map(|(option, file)| self.setting(option, file)));
        } else {
            command.arg(self.product.without_tls());
        }
        command.envs(self.environment.iter().cloned());
        let mut process = Process::start(&command, "mariadb-server", &output);
        let begun = Clock::boottime().now();
        while !self.try_sql("SELECT 1").status.success() {
            if process.has_ended() {
                let output = self.output();
                let is_taken = output.contains("Address already in use") || output.contains("Can't lock");
                assert!(is_taken, "{:?} ended:\n{output}", self.product);
                return Err(PortTaken);
            }
            let waited = Clock::boottime().now().since(begun);
            assert!(waited < START_LIMIT, "the server does not answer:\n{}", self.output());
            std::thread::sleep(GLANCE);
        }
        *self.process() = Some(process);
        Ok(())
    }

    /// The data directory, and the directory for temporary files: at its start a server removes those of
    /// others in the default one.
    fn places(&self) -> [String; 2] {
        [self.setting("datadir", "data"), self.setting("tmpdir", "tmp")]
    }

    fn setting(&self, option: &str, file: &str) -> String {
        format!("--{option}={}", self.file(file).display())
    }

    fn socket(&self) -> PathBuf {
        self.file("socket")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that failed during a query must still be able to end the process.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's folder, with its data and output.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl SqlServer for MariadbServer {
    fn ask(&self, sql: &str) -> Result<String, String> {
        let output = self.try_sql(sql);
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    fn ago(millis: u64) -> String {
        format!("SYSDATE(6) - INTERVAL {} MICROSECOND", millis * 1_000)
    }
}

impl Pooled for MariadbServer {
    fn is_healthy(&self) -> bool {
        self.try_sql("SELECT 1").status.success()
    }
}

/// The server refuses to run as root.
fn as_mysql() -> Option<&'static str> {
    nix::unistd::geteuid().is_root().then_some("--user=mysql")
}
