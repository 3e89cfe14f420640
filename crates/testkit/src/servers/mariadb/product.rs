//! What differs between MariaDB and MySQL for whoever starts one.

use std::path::Path;
use std::process::Command;

use super::MariadbServer;
use crate::servers::root::root_with;

/// A small log is made faster, and nothing here needs a large one.
const SMALL_LOG: &str = "--innodb-log-file-size=8M";
const SMALL_MYSQL_LOG: &str = "--innodb-redo-log-capacity=8M";

/// Which one is installed. The package of MySQL is not in Debian's stable release: `./test versions` unpacks it.
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

    /// The command that makes a data directory, with `root` who needs no password.
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
            // By default it listens on a second port, and reads files of one folder only, which must be there.
            Self::Mysql => {
                [SMALL_MYSQL_LOG, "--mysqlx=OFF", "--secure-file-priv="].map(str::to_owned).to_vec()
            }
        };
        options.extend(
            root_with("usr/sbin/mysqld").map(|root| format!("--basedir={}", root.join("usr").display())),
        );
        options
    }

    /// MySQL wants TLS for the first login of a user with a password; later it remembers the password's hash.
    pub(super) fn let_in(self, server: &MariadbServer) {
        if self == Self::Mariadb {
            return;
        }
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=app", "--password=s3cr@t", "--host=127.0.0.1", "--ssl"]);
        command.args([&format!("--port={}", server.port), "-e", "SELECT 1"]);
        let output = command.output().expect("mariadb starts; it is in the package mariadb-client");
        // One who must show a certificate is refused here, and speaks TLS always.
        assert!(output.status.success() || server.has_tls, "{}", String::from_utf8_lossy(&output.stderr));
    }
}
