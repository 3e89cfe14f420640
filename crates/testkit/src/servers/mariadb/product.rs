//! The differences between MariaDB and MySQL when a server is started.

use std::path::Path;
use std::process::Command;

use super::MariadbServer;
use crate::servers::root::root_with;

/// A small log is created faster, and no test needs a large one.
const SMALL_LOG: &str = "--innodb-log-file-size=8M";
const SMALL_MYSQL_LOG: &str = "--innodb-redo-log-capacity=8M";

/// The installed product. The package of MySQL is not in Debian's stable release: `./test versions` unpacks
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    Mariadb,
    Mysql,
}

impl Product {
    pub(super) fn installed() -> Self {
        // MariaDB has a `mysqld` as well.
        match root_with("usr/sbin/mysqld").is_some() && root_with("usr/sbin/mariadbd").is_none() {
            true => Self::Mysql,
            false => Self::Mariadb,
        }
    }

    pub(super) fn program(self) -> &'static Path {
        match self {
            Self::Mariadb => "mariadbd".as_ref(),
            Self::Mysql => "mysqld".as_ref(),
        }
    }

    /// The command that creates a data directory, with a `root` user without a password.
    pub(super) fn data_maker(self) -> Command {
        let mut command = Command::new(match self {
            Self::Mariadb => "mariadb-install-db",
            Self::Mysql => "mysqld",
        });
        command.arg("--no-defaults").args(self.options());
        match self {
            Self::Mariadb => command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
            Self::Mysql => command.arg("--initialize-insecure"),
        };
        command
    }

    pub(super) fn options(self) -> Vec<String> {
        let mut options = match self {
            Self::Mariadb => vec![SMALL_LOG.to_owned()],
            // By default it listens on a second port, and reads files from one folder only, which must exist.
            Self::Mysql => {
                [SMALL_MYSQL_LOG, "--mysqlx=OFF", "--secure-file-priv="].map(str::to_owned).to_vec()
            }
        };
        options.extend(
            root_with("usr/sbin/mysqld").map(|root| format!("--basedir={}", root.join("usr").display())),
        );
        options
    }

    /// Newer versions create certificates of their own otherwise.
    pub(super) fn without_tls(self) -> &'static str {
        match self {
            Self::Mariadb => "--skip-ssl",
            Self::Mysql => "--tls-version=",
        }
    }

    /// A query for the connection ids of the tests' users.
    pub(super) fn connections(self) -> &'static str {
        match self {
            Self::Mariadb => "SELECT id FROM information_schema.processlist WHERE user IN ('owner', 'app')",
            Self::Mysql => {
                "SELECT processlist_id FROM performance_schema.threads WHERE processlist_user IN ('owner', 'app')"
            }
        }
    }

    /// A query for the running times of the statements of these users, in milliseconds, from 100 on.
    pub(super) fn statement_times(self) -> &'static str {
        match self {
            Self::Mariadb => {
                "SELECT FLOOR(time_ms) FROM information_schema.processlist \
                 WHERE user IN ('owner', 'app') AND info IS NOT NULL AND time_ms > 100"
            }
            Self::Mysql => {
                "SELECT FLOOR(timer_wait / 1e9) FROM performance_schema.events_statements_current \
                 JOIN performance_schema.threads USING (thread_id) \
                 WHERE processlist_user IN ('owner', 'app') AND end_event_id IS NULL AND timer_wait > 1e11"
            }
        }
    }

    /// A query for a row that ends in the number of deadlocks found.
    pub(super) fn deadlocks(self) -> &'static str {
        match self {
            Self::Mariadb => "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'",
            Self::Mysql => {
                "SELECT name, count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
            }
        }
    }

    /// The first login of a user with a password requires TLS or MySQL's RSA key exchange, which the engine
    /// does not do without TLS. After it MySQL remembers the password's hash.
    pub(super) fn let_in(self, server: &MariadbServer) {
        if self == Self::Mariadb || server.has_tls {
            return;
        }
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=app", "--password=s3cr@t", "--host=127.0.0.1", "--skip-ssl"]);
        command.args([&format!("--port={}", server.port), "-e", "SELECT 1"]);
        let output = command.output().expect("mariadb starts; it is in the package mariadb-client");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
