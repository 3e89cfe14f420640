//! A pooler in front of a PostgreSQL server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;

use super::PostgresServer;
use super::port::free_port;
use super::process::Process;

const START_LIMIT: Duration = Duration::from_secs(30);

/// A running `pgbouncer` on a port of 127.0.0.1. Killed when dropped.
pub struct PgBouncer {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts one with this `pool_mode`, and waits until it listens.
    ///
    /// # Panics
    /// If it does not; with what it printed.
    pub fn start(server: &PostgresServer, mode: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("pgbouncer").tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        let (port, behind) = (free_port(), server.address().port());
        let users = folder.path().join("users");
        fs::write(&users, "\"owner\" \"\"\n").expect("the folder is ours");
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={behind} dbname=postgres user=owner\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             pool_mode = {mode}\ndefault_pool_size = 20\n",
            users.display()
        );
        let file = folder.path().join("settings");
        fs::write(&file, settings).expect("the folder is ours");
        // It refuses to run as root.
        let mut command = match nix::unistd::geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "pgbouncer"]);
                command
            }
            false => Command::new("pgbouncer"),
        };
        let output = folder.path().join("output");
        let mut process = Process::start(command.arg(&file), "pgbouncer", &output);
        let (begun, address) = (Clock::boottime().now(), SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        while TcpStream::connect(address).is_err() {
            let waited = Clock::boottime().now().since(begun);
            let says = || fs::read_to_string(&output).unwrap_or_default();
            assert!(!process.has_ended() && waited < START_LIMIT, "pgbouncer does not listen:\n{}", says());
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { port, _process: process, _folder: folder }
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}
