//! The servers, and the tests of each.

/// A server of a package of Debian.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    /// The name in the table.
    pub(crate) title: &'static str,
    /// The Debian release of the package.
    pub(crate) release: &'static str,
    pub(crate) package: &'static str,
    /// The programs: the name by which the tests start each, and its path in the package.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// The conformance tests: the kinds of engines whose names start with one of these.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) suites: &'static [&'static str],
    /// Cases of these suites that need a feature which the server does not have.
    pub(crate) without: &'static [&'static str],
}

const REDIS: (&[&str], &[&str]) = (
    &["redis", "redlock"],
    &["redis_corners", "redis_faults", "redis_hazards", "redis_waiters", "redlock_faults"],
);
const VALKEY: &[(&str, &str)] = &[("redis-server", "usr/bin/valkey-server")];
const MYSQL: (&[&str], &[&str]) = (&["mariadb", "mysql"], &["mariadb_faults", "session_faults"]);

pub(crate) const SERVERS: &[Server] = &[
    Server {
        name: "redis-8",
        title: "Redis 8",
        release: "sid",
        package: "redis-server",
        programs: &[("redis-server", "usr/bin/redis-server")],
        kinds: REDIS.0,
        suites: REDIS.1,
        without: &[],
    },
    Server {
        name: "valkey-8",
        title: "Valkey 8",
        release: "trixie",
        package: "valkey-server",
        programs: VALKEY,
        kinds: REDIS.0,
        suites: REDIS.1,
        without: &[],
    },
    Server {
        name: "valkey-9",
        title: "Valkey 9",
        release: "sid",
        package: "valkey-server",
        programs: VALKEY,
        kinds: REDIS.0,
        suites: REDIS.1,
        without: &[],
    },
    Server {
        name: "etcd-3.5",
        title: "etcd 3.5",
        release: "sid",
        package: "etcd-server",
        programs: &[("etcd", "usr/bin/etcd")],
        kinds: &["etcd"],
        suites: &["etcd_faults"],
        without: &[],
    },
    Server {
        name: "zookeeper-3.9",
        title: "ZooKeeper 3.9",
        release: "sid",
        package: "libzookeeper-java",
        programs: &[],
        kinds: &["zookeeper"],
        suites: &["zookeeper_faults", "zookeeper_quiet"],
        without: &[],
    },
    Server {
        name: "postgres-17",
        title: "PostgreSQL 17",
        release: "trixie",
        package: "postgresql-17",
        programs: &[
            ("postgres", "usr/lib/postgresql/17/bin/postgres"),
            ("initdb", "usr/lib/postgresql/17/bin/initdb"),
        ],
        kinds: &["postgres"],
        suites: &["postgres_faults", "session_faults"],
        without: &[],
    },
    Server {
        name: "mariadb-11.8",
        title: "MariaDB 11.8",
        release: "trixie",
        package: "mariadb-server",
        programs: &[
            ("mariadbd", "usr/sbin/mariadbd"),
            ("mariadb-install-db", "usr/bin/mariadb-install-db"),
            ("my_print_defaults", "usr/bin/my_print_defaults"),
            ("resolveip", "usr/bin/resolveip"),
        ],
        kinds: MYSQL.0,
        suites: MYSQL.1,
        without: &[],
    },
    Server {
        name: "mysql-9",
        title: "MySQL 9",
        release: "sid",
        package: "mysql-server-core",
        programs: &[("mysqld", "usr/sbin/mysqld")],
        kinds: MYSQL.0,
        suites: MYSQL.1,
        // Galera is MariaDB's.
        without: &["unfit::a_member_of_a_galera_cluster_is_refused"],
    },
];
