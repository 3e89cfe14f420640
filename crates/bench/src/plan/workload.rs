//! Workloads: the work of the tasks.

use clap::ValueEnum;

use super::{Engine, Side};

/// The work of the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    #[value(name = "W1", alias = "w1")]
    Free,
    #[value(name = "W2", alias = "w2")]
    Distinct,
    #[value(name = "W3", alias = "w3")]
    Contended,
    #[value(name = "W4", alias = "w4")]
    Processes,
    #[value(name = "W4work", alias = "w4work")]
    Working,
    #[value(name = "W5", alias = "w5")]
    HandOver,
    #[value(name = "P2", alias = "p2")]
    Pair,
    #[value(name = "P16", alias = "p16")]
    Ring,
}

impl Workload {
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Free => "W1",
            Self::Distinct => "W2",
            Self::Contended => "W3",
            Self::Processes => "W4",
            Self::Working => "W4work",
            Self::HandOver => "W5",
            Self::Pair => "P2",
            Self::Ring => "P16",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Free => "free acquire and release, one task",
            Self::Distinct => "64 tasks on 64 locks",
            Self::Contended => "16 tasks on one lock",
            Self::Processes => "4 processes x 4 tasks on one lock",
            Self::Working => "4 processes x 4 tasks on one lock, 1 ms of work inside",
            Self::HandOver => "hand-over between two processes",
            Self::Pair => "2 tasks pass one lock to each other",
            Self::Ring => "16 tasks pass one lock round",
        }
    }

    pub(crate) fn processes(self) -> u32 {
        match self {
            Self::Processes | Self::Working => 4,
            Self::HandOver => 2,
            _ => 1,
        }
    }

    /// Tasks in each process.
    pub(crate) fn tasks(self) -> u32 {
        match self {
            Self::Free | Self::HandOver => 1,
            Self::Distinct => 64,
            Self::Contended | Self::Ring => 16,
            Self::Processes | Self::Working => 4,
            Self::Pair => 2,
        }
    }

    /// Whether single passes are timed, instead of turns.
    pub(crate) fn is_passing(self) -> bool {
        matches!(self, Self::Pair | Self::Ring)
    }

    /// Whether several processes contend for one lock.
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Self::Processes | Self::Working)
    }

    /// The lock that a task takes.
    pub(crate) fn lock_name(self, task: u32) -> String {
        let number = if self == Self::Distinct { task } else { 0 };
        format!("bench/{number}")
    }

    /// The sides that this workload compares on `engine`, Latchwork's first. Empty if the workload does not
    /// apply.
    pub(crate) fn sides(self, engine: Engine) -> &'static [Side] {
        match (engine, self) {
            // Both engines: a pass sends no request to either, so they should not differ.
            (_, Self::Pair | Self::Ring) => &[
                Side::MemoryMulti,
                Side::SqliteMulti,
                Side::MutexMulti,
                Side::MemoryCurrent,
                Side::SqliteCurrent,
                Side::MutexCurrent,
            ],
            (Engine::Sqlite, _) => self.on_sqlite(),
            (Engine::Memory, _) => self.in_memory(),
            (Engine::Redis, _) => self.on_redis(),
            (Engine::Redlock, _) => self.on_redlock(),
            (Engine::Memcached, _) => self.on_memcached(),
            (Engine::Mariadb, _) => self.on_mariadb(),
            (Engine::Postgres, _) => self.on_postgres(),
            (Engine::MariadbSession | Engine::PostgresSession, _) => self.on_sessions(engine),
            (Engine::Etcd, _) => self.on_etcd(),
            (Engine::Zookeeper, _) => self.on_zookeeper(),
        }
    }

    fn on_sqlite(self) -> &'static [Side] {
        use Side::{Bell, Flock, SqliteCurrent, SqliteMulti, SqliteUnpassed, Statements};
        match self {
            Self::Free | Self::Distinct => &[SqliteMulti, SqliteCurrent, Statements],
            Self::HandOver => &[SqliteMulti, SqliteCurrent, Bell, Flock],
            _ => &[SqliteMulti, SqliteCurrent, SqliteUnpassed, Flock],
        }
    }

    fn in_memory(self) -> &'static [Side] {
        use Side::{MemoryCurrent, MemoryMulti, MutexCurrent, MutexMulti};
        match self {
            Self::Processes | Self::Working | Self::HandOver => &[],
            _ => &[MemoryMulti, MutexMulti, MemoryCurrent, MutexCurrent],
        }
    }

    fn on_redlock(self) -> &'static [Side] {
        use Side::{DistributedLock, RedlockCurrent, RedlockMulti, RedlockUnpassed, Rslock, RslockQuick};
        match self {
            Self::Free | Self::Distinct => &[RedlockMulti, RedlockCurrent, Rslock, DistributedLock],
            Self::HandOver => &[RedlockMulti, RedlockCurrent, Rslock, RslockQuick],
            _ => &[RedlockMulti, RedlockCurrent, RedlockUnpassed, Rslock, RslockQuick],
        }
    }

    fn on_mariadb(self) -> &'static [Side] {
        use Side::{MariadbCurrent, MariadbMulti, MariadbStatements, MariadbUnpassed};
        match self {
            Self::Free | Self::Distinct => &[MariadbMulti, MariadbCurrent, MariadbStatements],
            _ => &[MariadbMulti, MariadbCurrent, MariadbUnpassed],
        }
    }

    fn on_memcached(self) -> &'static [Side] {
        use Side::{MemcachedCurrent, MemcachedMeta, MemcachedMulti, MemcachedUnpassed};
        match self {
            Self::Free | Self::Distinct => &[MemcachedMulti, MemcachedCurrent, MemcachedMeta],
            _ => &[MemcachedMulti, MemcachedCurrent, MemcachedUnpassed],
        }
    }

    fn on_postgres(self) -> &'static [Side] {
        use Side::{PostgresCurrent, PostgresMulti, PostgresStatements, PostgresUnpassed};
        match self {
            Self::Free | Self::Distinct => &[PostgresMulti, PostgresCurrent, PostgresStatements],
            _ => &[PostgresMulti, PostgresCurrent, PostgresUnpassed],
        }
    }

    fn on_sessions(self, engine: Engine) -> &'static [Side] {
        use Side::{SessionBlocks, SessionBytes, SessionCurrent, SessionMulti};
        use Side::{SessionPeer, SessionStatements, SessionUnpassed};
        match self {
            Self::Free | Self::Distinct if engine == Engine::PostgresSession => {
                &[SessionMulti, SessionCurrent, SessionBytes, SessionStatements, SessionPeer]
            }
            Self::Free | Self::Distinct => &[SessionMulti, SessionCurrent, SessionBytes, SessionPeer],
            Self::HandOver => &[SessionMulti, SessionCurrent, SessionBlocks],
            _ => &[SessionMulti, SessionCurrent, SessionUnpassed, SessionBlocks],
        }
    }

    fn on_etcd(self) -> &'static [Side] {
        use Side::{EtcdCurrent, EtcdLock, EtcdMulti, EtcdQueue, EtcdTxn, EtcdUnpassed};
        match self {
            Self::Free | Self::Distinct => &[EtcdMulti, EtcdCurrent, EtcdTxn, EtcdLock],
            _ => &[EtcdMulti, EtcdCurrent, EtcdUnpassed, EtcdQueue, EtcdLock],
        }
    }

    fn on_zookeeper(self) -> &'static [Side] {
        use Side::{ZookeeperBytes, ZookeeperCreate, ZookeeperLock};
        use Side::{ZookeeperCurrent, ZookeeperMulti, ZookeeperUnpassed};
        match self {
            Self::Free => &[ZookeeperMulti, ZookeeperCurrent, ZookeeperCreate, ZookeeperBytes, ZookeeperLock],
            Self::Distinct => &[ZookeeperMulti, ZookeeperCurrent, ZookeeperCreate, ZookeeperLock],
            _ => &[ZookeeperMulti, ZookeeperCurrent, ZookeeperUnpassed, ZookeeperLock],
        }
    }

    /// Every floor on both runtimes, because the crate's connection differs between them too, not only
    /// Latchwork's core.
    fn on_redis(self) -> &'static [Side] {
        use Side::{BareCurrent, BareMulti, BlpopCurrent, BlpopMulti, RedisCurrent, RedisMulti};
        use Side::{PyRedis, PyRedisLock, Rslock, RslockQuick};
        use Side::{RedisUnpassed, RedisUnpassedCurrent, ScriptsCurrent, ScriptsMulti};
        match self {
            Self::Free => &[
                RedisMulti,
                ScriptsMulti,
                BareMulti,
                RedisCurrent,
                ScriptsCurrent,
                BareCurrent,
                Rslock,
                PyRedisLock,
                PyRedis,
            ],
            Self::Distinct => {
                &[RedisMulti, ScriptsMulti, BareMulti, RedisCurrent, ScriptsCurrent, BareCurrent, Rslock]
            }
            Self::HandOver => &[
                RedisMulti,
                BlpopMulti,
                RedisCurrent,
                BlpopCurrent,
                Rslock,
                RslockQuick,
                PyRedisLock,
                PyRedis,
            ],
            _ => &[
                RedisMulti,
                RedisUnpassed,
                BlpopMulti,
                RedisCurrent,
                RedisUnpassedCurrent,
                BlpopCurrent,
                Rslock,
                RslockQuick,
                PyRedisLock,
                PyRedis,
            ],
        }
    }
}
