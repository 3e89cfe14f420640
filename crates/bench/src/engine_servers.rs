//! The servers that the sides of an engine need: one, or five for redlock. All sides use them in turn.

use std::cell::Cell;
use std::time::Duration;

use testkit::servers::{
    EtcdOptions, EtcdServer, MariadbOptions, MariadbServer, MemcachedOptions, MemcachedServer,
    PostgresOptions, PostgresServer, RedisOptions, RedisServer, ZooKeeperAdmin, ZooKeeperOptions,
    ZooKeeperServer,
};

use latchwork::clock::Clock;

use crate::floors;
use crate::metrics::Metric;
use crate::plan::{Engine, Side};

/// The masters of redlock.
const MASTERS: usize = 5;
/// How long ZooKeeper handles requests before it is measured.
const WARM_UP: Duration = Duration::from_secs(10);
/// The length of the slow log: the calls of some seconds, of which only the newest count.
const SLOW_LOG_LENGTH: &str = "20000";

/// Servers, from before the first side until after the last. They are children of this process and pinned
/// with it.
pub(crate) struct EngineServers {
    redis: Option<RedisServer>,
    /// For redlock.
    masters: Vec<RedisServer>,
    memcached: Option<MemcachedServer>,
    mariadb: Option<MariadbServer>,
    postgres: Option<PostgresServer>,
    etcd: Option<EtcdServer>,
    zookeeper: Option<ZooKeeperServer>,
    /// The server's counter at the start of the side: the counters of etcd and zookeeper only grow.
    initial_requests: Cell<u64>,
    splits: bool,
    /// The options at the end of a database's URL.
    scheme: &'static str,
}

impl EngineServers {
    /// For sides that need no server.
    pub(crate) fn none() -> Self {
        Self {
            redis: None,
            masters: Vec::new(),
            memcached: None,
            mariadb: None,
            postgres: None,
            etcd: None,
            zookeeper: None,
            initial_requests: Cell::new(0),
            splits: false,
            scheme: "",
        }
    }

    /// `splits`: claims and releases are timed separately.
    ///
    /// # Panics
    /// If the server does not start.
    pub(crate) fn of(engine: Engine, splits: bool) -> Self {
        let redis = (engine == Engine::Redis).then(|| start_redis(splits));
        let masters = if engine == Engine::Redlock { MASTERS } else { 0 };
        let masters = (0..masters).map(|_| start_redis(false)).collect();
        let (on_mariadb, on_postgres) = (
            matches!(engine, Engine::Mariadb | Engine::MariadbSession),
            matches!(engine, Engine::Postgres | Engine::PostgresSession),
        );
        let mariadb = on_mariadb
            .then(|| MariadbServer::start(MariadbOptions { is_measured: true, ..MariadbOptions::default() }));
        let memcached =
            (engine == Engine::Memcached).then(|| MemcachedServer::start(MemcachedOptions::default()));
        let postgres = on_postgres.then(|| {
            PostgresServer::start(PostgresOptions { is_measured: true, ..PostgresOptions::default() })
        });
        let etcd = (engine == Engine::Etcd).then(|| EtcdServer::start(EtcdOptions::default()));
        let zookeeper = (engine == Engine::Zookeeper).then(start_zookeeper);
        let is_session = matches!(engine, Engine::MariadbSession | Engine::PostgresSession);
        let scheme = if is_session { "scheme=session" } else { "" };
        Self {
            redis,
            masters,
            mariadb,
            memcached,
            postgres,
            etcd,
            zookeeper,
            initial_requests: Cell::new(0),
            splits,
            scheme,
        }
    }

    pub(crate) fn redis(&self) -> Option<&RedisServer> {
        self.redis.as_ref()
    }

    pub(crate) fn etcd(&self) -> Option<&EtcdServer> {
        self.etcd.as_ref()
    }

    pub(crate) fn zookeeper(&self) -> Option<&ZooKeeperServer> {
        self.zookeeper.as_ref()
    }

    /// The server's address as the library takes it.
    pub(crate) fn url(&self) -> Option<String> {
        let redis = self.redis.as_ref().map(|server| format!("redis://{}", server.address()));
        let etcd = self.etcd.as_ref().map(|server| format!("etcd://{}", server.address()));
        let zookeeper = self.zookeeper.as_ref();
        let zookeeper = zookeeper.map(|server| format!("zookeeper://{}", server.members()[0].address()));
        let addresses: Vec<_> = self.masters.iter().map(|master| master.address().to_string()).collect();
        let redlock = format!("redlock://{}?quarantine=off", addresses.join(","));
        let postgres = self.postgres.as_ref().map(|server| server.url(server.address(), self.scheme));
        let memcached = self.memcached.as_ref().map(|server| format!("memcached://{}", server.address()));
        let mariadb = self.mariadb.as_ref().map(|server| server.url(server.address(), self.scheme));
        let databases = mariadb.or(postgres).or(memcached);
        redis.or(databases).or((!addresses.is_empty()).then_some(redlock)).or(etcd).or(zookeeper)
    }

    /// Deletes everything that the side before has left.
    pub(crate) fn clear(&self) {
        self.all_redis().for_each(|server| drop(server.command(&["FLUSHALL"])));
        self.memcached.iter().for_each(MemcachedServer::flush);
        // The first client creates the tables.
        let truncate = "DO $$ BEGIN TRUNCATE latchwork_lock, latchwork_claim; EXCEPTION WHEN undefined_table THEN END $$";
        self.postgres.iter().for_each(|server| drop(server.psql(truncate)));
        let drop_tables = "DROP TABLE IF EXISTS latchwork_lock, latchwork_claim";
        self.mariadb.iter().for_each(|server| drop(server.sql(drop_tables)));
        self.etcd.iter().for_each(|server| drop(server.etcdctl(&["del", "--prefix", ""])));
        self.zookeeper.iter().for_each(clear_zookeeper);
    }

    /// Resets the counters of requests.
    pub(crate) fn begin(&self, side: Side) {
        self.etcd.iter().for_each(|server| self.initial_requests.set(server.calls(side.requests())));
        self.zookeeper.iter().for_each(|server| self.initial_requests.set(server.members()[0].requests()));
        for command in [&["CONFIG", "RESETSTAT"], &["SLOWLOG", "RESET"]] {
            self.all_redis().for_each(|server| drop(server.command(command)));
        }
    }

    /// The cost to the server of `turns` cycles of a side since [`EngineServers::begin`].
    pub(crate) fn load(&self, side: Side, turns: usize) -> Vec<Metric> {
        if let Some(server) = &self.etcd {
            let calls = (server.calls(side.requests()) - self.initial_requests.get()) as f64;
            return vec![Metric::median_of("requests/turn", calls / turns as f64)];
        }
        if let Some(server) = &self.zookeeper {
            let calls = (server.members()[0].requests() - self.initial_requests.get()) as f64;
            return vec![Metric::median_of("requests/turn", calls / turns as f64)];
        }
        if self.all_redis().next().is_none() {
            return Vec::new();
        }
        let calls = self.all_redis().map(|server| server.calls(side.requests())).sum::<u64>() as f64;
        let busy = self.all_redis().map(|server| server.time_in(side.requests())).sum::<Duration>();
        let busy = busy.as_secs_f64() * 1e6;
        let mut metrics = vec![
            Metric::median_of("requests/turn", calls / turns as f64),
            Metric::median_of("us/request", busy / calls),
        ];
        metrics.extend(self.redis.iter().filter(|_| self.splits).flat_map(split));
        metrics
    }

    fn all_redis(&self) -> impl Iterator<Item = &RedisServer> {
        self.redis.iter().chain(&self.masters)
    }
}

/// Starts ZooKeeper and warms it up: code that Java has not compiled yet takes severalfold as long, and the
/// first side would pay for it.
fn start_zookeeper() -> ZooKeeperServer {
    let server =
        ZooKeeperServer::start(ZooKeeperOptions { is_measured: true, ..ZooKeeperOptions::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let admin = ZooKeeperAdmin::connect(&server, None).await;
        let warm = Clock::boottime().now().after(WARM_UP);
        admin.make("/warm").await;
        while Clock::boottime().now() < warm {
            let node = admin.enrol("/warm/node-").await;
            admin.children("/warm").await;
            admin.delete(&node).await;
        }
    });
    server
}

/// Deletes the nodes of locks. Ephemeral nodes end with their sessions.
fn clear_zookeeper(server: &ZooKeeperServer) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let admin = ZooKeeperAdmin::connect(server, None).await;
        admin.delete_below("/bench").await;
    });
}

/// Without `logs` the slow log is off: otherwise it would be written in the measured time whenever the
/// machine stalls.
fn start_redis(logs: bool) -> RedisServer {
    let from = if logs { "0" } else { "-1" };
    let config = [("slowlog-log-slower-than", from), ("slowlog-max-len", SLOW_LOG_LENGTH)];
    let config = config.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    RedisServer::start(RedisOptions { config, ..RedisOptions::default() })
}

/// The mean microseconds of a claim and of a release.
fn split(server: &RedisServer) -> [Metric; 2] {
    let log = server.command(&["SLOWLOG", "GET", "-1"]);
    let mean = |script: &str| {
        let digest = server.command(&["SCRIPT", "LOAD", script]).text();
        let mut micros = Vec::new();
        for entry in log.array() {
            let (taken, words) = (entry.array()[2].integer(), entry.array()[3].array());
            if words.get(1).is_some_and(|word| word.text() == digest) {
                micros.push(taken as f64);
            }
        }
        micros.iter().sum::<f64>() / micros.len() as f64
    };
    [
        Metric::median_of("us/claim", mean(&floors::claim_script())),
        Metric::median_of("us/release", mean(&floors::release_script())),
    ]
}
