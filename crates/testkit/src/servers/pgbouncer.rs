//! A pgbouncer in front of a PostgreSQL server: the real `pgbouncer`, which assigns its few connections for
//! one transaction at a time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

use super::pool::Pooled;
use super::port::free_port;
use super::postgres::{PostgresOptions, PostgresServer};
use super::process::{Process, unprivileged};

/// An ordinary user's `PATH` may lack its folder.
const PROGRAM: &str = "/usr/sbin/pgbouncer";
const START_LIMIT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(10);
/// The number of ports to try before the start fails.
const MOST_PORTS: u32 = 20;

/// A running `pgbouncer` on a port of 127.0.0.1, and the server behind it. Killed when dropped.
pub struct Pgbouncer {
    port: u16,
    connections: u32,
    // Dropped before the server.
    _process: Process,
    _folder: TempDir,
    server: PostgresServer,
}

impl Pgbouncer {
    /// Starts a server and a pooler in front of it, in transaction mode: the next transaction gets the
    /// connection that was idle for the longest time.
    ///
    /// # Panics
    /// If one of them does not start. The message shows its output.
    pub fn start() -> Self {
        Self::start_in("transaction", Self::CONNECTIONS)
    }

    /// The number of server connections of [`Pgbouncer::start`].
    pub const CONNECTIONS: u32 = 5;

    /// Starts them with another `pool_mode`, and this number of server connections.
    ///
    /// # Panics
    /// As [`Pgbouncer::start`].
    pub fn start_in(mode: &str, connections: u32) -> Self {
        let server = PostgresServer::start(PostgresOptions::default());
        let folder = tempfile::Builder::new().prefix("pgbouncer").tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        for _ in 0..MOST_PORTS {
            let port = free_port();
            if let Some(process) =
                launch(&folder, [mode, &connections.to_string()], port, server.address().port())
            {
                return Self { port, connections, _process: process, _folder: folder, server };
            }
        }
        panic!("{MOST_PORTS} times, a free port was taken before the start");
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Waits until it has opened all its server connections. It opens them one by one after its first client
    /// came.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn opens_all_connections(&self) {
        let begun = Clock::boottime().now();
        let others = "backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {others}");
        while self.server.psql(&count) != self.connections.to_string() {
            assert!(
                Clock::boottime().now().since(begun) < START_LIMIT,
                "pgbouncer does not open its connections"
            );
            std::thread::sleep(GLANCE);
        }
    }

    /// The server behind it.
    pub fn server(&self) -> &PostgresServer {
        &self.server
    }
}

impl Pooled for Pgbouncer {
    fn is_healthy(&self) -> bool {
        self.server.is_healthy() && TcpStream::connect(self.address()).is_ok()
    }
}

/// Starts the process and waits until it listens. `None` if the port is taken.
fn launch(folder: &TempDir, [mode, connections]: [&str; 2], port: u16, server: u16) -> Option<Process> {
    let [settings, users, output] =
        ["pgbouncer.ini", "users.txt", "output"].map(|name| folder.path().join(name));
    fs::write(&users, "\"owner\" \"\"\n").expect("the folder is ours");
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\nserver_round_robin = 1\n\
         default_pool_size = {connections}\nmin_pool_size = {connections}\nmax_client_conn = 400\n",
        users.display()
    );
    fs::write(&settings, text).expect("the folder is ours");
    let mut process =
        Process::start(unprivileged("postgres", PROGRAM.as_ref()).arg(&settings), "pgbouncer", &output);
    let begun = Clock::boottime().now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let said = fs::read_to_string(&output).unwrap_or_default();
        if process.has_ended() {
            assert!(said.contains("Address already in use"), "pgbouncer ended:\n{said}");
            return None;
        }
        let waited = Clock::boottime().now().since(begun);
        assert!(waited < START_LIMIT, "pgbouncer does not listen:\n{said}");
        std::thread::sleep(GLANCE);
    }
    Some(process)
}
