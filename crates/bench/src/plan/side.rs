//! The sides of a comparison: Latchwork ("ours"), a raw floor, or a peer.

use std::time::Duration;

use clap::ValueEnum;

use super::{Engine, Workload};
use crate::contend::Pacing;

/// A side of a comparison. The runtime is part of Latchwork's sides: the same lock differs between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    SqliteMulti,
    SqliteCurrent,
    /// Latchwork without local passes: every acquisition is a claim on the engine.
    SqliteUnpassed,
    MemoryMulti,
    MemoryCurrent,
    RedisMulti,
    RedisCurrent,
    /// As [`Side::SqliteUnpassed`].
    RedisUnpassed,
    RedisUnpassedCurrent,
    RedlockMulti,
    RedlockCurrent,
    /// As [`Side::SqliteUnpassed`].
    RedlockUnpassed,
    MemcachedMulti,
    MemcachedCurrent,
    /// As [`Side::SqliteUnpassed`].
    MemcachedUnpassed,
    MariadbMulti,
    MariadbCurrent,
    MariadbUnpassed,
    PostgresMulti,
    PostgresCurrent,
    /// As [`Side::SqliteUnpassed`].
    PostgresUnpassed,
    /// Session locks, on the database of the URL.
    SessionMulti,
    SessionCurrent,
    /// As [`Side::SqliteUnpassed`].
    SessionUnpassed,
    EtcdMulti,
    EtcdCurrent,
    /// As [`Side::SqliteUnpassed`].
    EtcdUnpassed,
    ZookeeperMulti,
    ZookeeperCurrent,
    /// As [`Side::SqliteUnpassed`].
    ZookeeperUnpassed,
    /// The engine's own two statements through rusqlite.
    Statements,
    /// The release statement, then 32 bytes into the other process's FIFO.
    Bell,
    Flock,
    MutexMulti,
    MutexCurrent,
    /// The engine's own two scripts through the same crate.
    ScriptsMulti,
    ScriptsCurrent,
    /// `SET NX PX` and `INCR` in one pipeline, then a script that compares and deletes.
    BareMulti,
    BareCurrent,
    /// One element of a list: `BLPOP` takes it, `LPUSH` gives it.
    BlpopMulti,
    BlpopCurrent,
    /// `ms` in the mode of `add`, and `md`, as bytes on a socket; a connection for each task.
    MemcachedMeta,
    /// The engine's own two statements, prepared, as bytes on a socket.
    MariadbStatements,
    /// The engine's own two statements, prepared, through the same crate.
    PostgresStatements,
    /// Two prepared statements that acquire and release a session lock, as bytes on a socket.
    SessionBytes,
    /// These statements through tokio-postgres.
    SessionStatements,
    /// As [`Side::SessionBytes`], but the server waits until the lock is free; a connection for each task.
    SessionBlocks,
    /// A peer: distributed-lock 0.2 on the same database.
    SessionPeer,
    /// A key that is put if it is absent, in one transaction, and deleted, through etcd-client.
    EtcdTxn,
    /// Keys in a queue: put, read, watch the key before without a revision, read again; through etcd-client.
    EtcdQueue,
    /// A peer: the lock that etcd itself offers, through etcd-client.
    EtcdLock,
    /// An ephemeral node, created and deleted through zookeeper-client.
    ZookeeperCreate,
    /// The node of [`Side::ZookeeperCreate`], as bytes on a socket.
    ZookeeperBytes,
    /// A peer: the lock of zookeeper-client.
    ZookeeperLock,
    /// A peer: crate rslock with its defaults.
    Rslock,
    /// Crate rslock with a retry delay of 10 ms instead of 200.
    RslockQuick,
    /// A peer: the Redlock of distributed-lock 0.2, a fresh name each time.
    DistributedLock,
    /// A peer: python-redis-lock.
    PyRedisLock,
    /// A peer: the lock of redis-py.
    PyRedis,
}

/// The runtime a side's tasks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeFlavor {
    Multi,
    Current,
}

impl Side {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::SqliteMulti => "ours: sqlite, multi-thread",
            Self::SqliteCurrent => "ours: sqlite, current-thread",
            Self::SqliteUnpassed => "ours: sqlite, never passed",
            Self::MemoryMulti => "ours: memory, multi-thread",
            Self::MemoryCurrent => "ours: memory, current-thread",
            Self::RedisMulti => "ours: redis, multi-thread",
            Self::RedisCurrent => "ours: redis, current-thread",
            Self::RedisUnpassed => "ours: never passed, multi",
            Self::RedisUnpassedCurrent => "ours: never passed, current",
            Self::RedlockMulti => "ours: redlock, multi-thread",
            Self::RedlockCurrent => "ours: redlock, current-thread",
            Self::RedlockUnpassed => "ours: redlock, never passed",
            Self::MemcachedMulti => "ours: memcached, multi-thread",
            Self::MemcachedCurrent => "ours: memcached, current-thread",
            Self::MemcachedUnpassed => "ours: memcached, never passed",
            Self::MemcachedMeta => "floor: raw ms and md",
            Self::MariadbMulti => "ours: mariadb, multi-thread",
            Self::MariadbCurrent => "ours: mariadb, current-thread",
            Self::MariadbUnpassed => "ours: mariadb, never passed",
            Self::MariadbStatements => "floor: raw statements, bytes",
            Self::PostgresMulti => "ours: postgres, multi-thread",
            Self::PostgresCurrent => "ours: postgres, current-thread",
            Self::PostgresUnpassed => "ours: postgres, never passed",
            Self::PostgresStatements => "floor: raw statements, prepared",
            Self::SessionMulti => "ours: session, multi-thread",
            Self::SessionCurrent => "ours: session, current-thread",
            Self::SessionUnpassed => "ours: session, never passed",
            Self::SessionBytes => "floor: raw pair, bytes",
            Self::SessionStatements => "floor: raw pair, tokio-postgres",
            Self::SessionBlocks => "floor: raw blocking pair, bytes",
            Self::SessionPeer => "peer: distributed-lock 0.2",
            Self::EtcdMulti => "ours: etcd, multi-thread",
            Self::EtcdCurrent => "ours: etcd, current-thread",
            Self::EtcdUnpassed => "ours: etcd, never passed",
            Self::ZookeeperMulti => "ours: zookeeper, multi-thread",
            Self::ZookeeperCurrent => "ours: zookeeper, current",
            Self::ZookeeperUnpassed => "ours: zookeeper, never passed",
            Self::ZookeeperCreate => "floor: raw create + delete",
            Self::ZookeeperBytes => "floor: the same, bytes alone",
            Self::ZookeeperLock => "peer: zookeeper-client's lock",
            Self::EtcdTxn => "floor: raw Txn + delete",
            Self::EtcdQueue => "floor: raw queue, synced watch",
            Self::EtcdLock => "peer: etcd's own lock",
            Self::Statements => "floor: raw statements",
            Self::Bell => "floor: raw release + bell",
            Self::Flock => "floor: flock",
            Self::MutexMulti => "floor: tokio Mutex, multi",
            Self::MutexCurrent => "floor: tokio Mutex, current",
            Self::ScriptsMulti => "floor: raw scripts, multi",
            Self::ScriptsCurrent => "floor: raw scripts, current",
            Self::BareMulti => "floor: SET NX + INCR, multi",
            Self::BareCurrent => "floor: SET NX + INCR, current",
            Self::BlpopMulti => "floor: raw BLPOP, multi",
            Self::BlpopCurrent => "floor: raw BLPOP, current",
            Self::Rslock => "peer: rslock",
            Self::RslockQuick => "peer: rslock, retry 10 ms",
            Self::DistributedLock => "peer: distributed-lock 0.2",
            Self::PyRedisLock => "peer: python-redis-lock",
            Self::PyRedis => "peer: redis-py",
        }
    }

    /// The sides to which this one's ratio is computed.
    pub(crate) fn floors(self, workload: Workload) -> &'static [Side] {
        match self {
            Self::RedisMulti | Self::RedisCurrent | Self::RedisUnpassed | Self::RedisUnpassedCurrent => {
                self.redis_floors(workload)
            }
            Self::RedlockMulti | Self::RedlockCurrent | Self::RedlockUnpassed => match workload {
                Workload::Free | Workload::Distinct => &[Self::Rslock, Self::DistributedLock],
                _ => &[Self::RslockQuick],
            },
            Self::MariadbMulti | Self::MariadbCurrent | Self::MariadbUnpassed => match workload {
                Workload::Free | Workload::Distinct => &[Self::MariadbStatements],
                _ => &[Self::MariadbUnpassed],
            },
            Self::MemcachedMulti | Self::MemcachedCurrent | Self::MemcachedUnpassed => match workload {
                Workload::Free | Workload::Distinct => &[Self::MemcachedMeta],
                _ => &[Self::MemcachedUnpassed],
            },
            Self::PostgresMulti | Self::PostgresCurrent | Self::PostgresUnpassed => match workload {
                Workload::Free | Workload::Distinct => &[Self::PostgresStatements],
                _ => &[Self::PostgresUnpassed],
            },
            Self::SessionMulti | Self::SessionCurrent | Self::SessionUnpassed => match workload {
                Workload::Free | Workload::Distinct => {
                    &[Self::SessionBytes, Self::SessionStatements, Self::SessionPeer]
                }
                _ => &[Self::SessionBlocks],
            },
            Self::EtcdMulti | Self::EtcdCurrent | Self::EtcdUnpassed => match workload {
                Workload::Free | Workload::Distinct => &[Self::EtcdTxn],
                _ => &[Self::EtcdQueue, Self::EtcdLock],
            },
            Self::ZookeeperMulti | Self::ZookeeperCurrent | Self::ZookeeperUnpassed => match workload {
                Workload::Free => &[Self::ZookeeperCreate, Self::ZookeeperBytes],
                Workload::Distinct => &[Self::ZookeeperCreate],
                _ => &[Self::ZookeeperLock],
            },
            _ => self.local_floors(workload),
        }
    }

    fn local_floors(self, workload: Workload) -> &'static [Side] {
        match (self, workload) {
            (Self::SqliteMulti | Self::SqliteCurrent, Workload::HandOver) => &[Self::Bell, Self::Flock],
            (Self::SqliteMulti | Self::SqliteCurrent, Workload::Free | Workload::Distinct) => {
                &[Self::Statements]
            }
            (Self::SqliteMulti, Workload::Contended | Workload::Processes | Workload::Working) => {
                &[Self::Flock, Self::SqliteUnpassed]
            }
            (Self::SqliteCurrent, Workload::Contended | Workload::Processes | Workload::Working) => {
                &[Self::Flock]
            }
            (Self::SqliteMulti | Self::MemoryMulti, _) => &[Self::MutexMulti],
            (Self::SqliteCurrent | Self::MemoryCurrent, _) => &[Self::MutexCurrent],
            _ => &[],
        }
    }

    /// The floors on the same runtime.
    fn redis_floors(self, workload: Workload) -> &'static [Side] {
        match (workload, self.flavor()) {
            (Workload::Free | Workload::Distinct, RuntimeFlavor::Multi) => {
                &[Self::ScriptsMulti, Self::BareMulti]
            }
            (Workload::Free | Workload::Distinct, RuntimeFlavor::Current) => {
                &[Self::ScriptsCurrent, Self::BareCurrent]
            }
            (_, RuntimeFlavor::Multi) => &[Self::BlpopMulti],
            (_, RuntimeFlavor::Current) => &[Self::BlpopCurrent],
        }
    }

    pub(crate) fn flavor(self) -> RuntimeFlavor {
        match self {
            Self::SqliteCurrent
            | Self::MemoryCurrent
            | Self::MutexCurrent
            | Self::EtcdCurrent
            | Self::ZookeeperCurrent
            | Self::RedisCurrent
            | Self::RedisUnpassedCurrent
            | Self::RedlockCurrent
            | Self::MemcachedCurrent
            | Self::MariadbCurrent
            | Self::PostgresCurrent
            | Self::SessionCurrent
            | Self::ScriptsCurrent
            | Self::BareCurrent
            | Self::BlpopCurrent => RuntimeFlavor::Current,
            _ => RuntimeFlavor::Multi,
        }
    }

    /// The engine of a side of Latchwork.
    pub(crate) fn engine(self) -> Option<Engine> {
        match self {
            Self::SqliteMulti | Self::SqliteCurrent | Self::SqliteUnpassed => Some(Engine::Sqlite),
            Self::MemoryMulti | Self::MemoryCurrent => Some(Engine::Memory),
            Self::RedisMulti | Self::RedisCurrent | Self::RedisUnpassed | Self::RedisUnpassedCurrent => {
                Some(Engine::Redis)
            }
            Self::RedlockMulti | Self::RedlockCurrent | Self::RedlockUnpassed => Some(Engine::Redlock),
            Self::MemcachedMulti | Self::MemcachedCurrent | Self::MemcachedUnpassed => {
                Some(Engine::Memcached)
            }
            Self::MariadbMulti | Self::MariadbCurrent | Self::MariadbUnpassed => Some(Engine::Mariadb),
            Self::PostgresMulti | Self::PostgresCurrent | Self::PostgresUnpassed => Some(Engine::Postgres),
            // Or MariaDB's, by the URL.
            Self::SessionMulti | Self::SessionCurrent | Self::SessionUnpassed => {
                Some(Engine::PostgresSession)
            }
            Self::EtcdMulti | Self::EtcdCurrent | Self::EtcdUnpassed => Some(Engine::Etcd),
            Self::ZookeeperMulti | Self::ZookeeperCurrent | Self::ZookeeperUnpassed => {
                Some(Engine::Zookeeper)
            }
            _ => None,
        }
    }

    /// Whether tasks of one client pass the lock to each other.
    pub(crate) fn passes(self) -> bool {
        !matches!(
            self,
            Self::SqliteUnpassed
                | Self::RedisUnpassed
                | Self::RedisUnpassedCurrent
                | Self::RedlockUnpassed
                | Self::MemcachedUnpassed
                | Self::MariadbUnpassed
                | Self::PostgresUnpassed
                | Self::SessionUnpassed
                | Self::EtcdUnpassed
                | Self::ZookeeperUnpassed
        )
    }

    /// Whether every cycle sends a request to a server: there the cost of recording each cycle does not
    /// matter.
    pub(crate) fn is_on_a_wire(self) -> bool {
        !self.requests().is_empty() || self.is_on_zookeeper() || self.is_uncounted()
    }

    /// The requests of a side to the server, without the commands of its scripts.
    pub(crate) fn requests(self) -> &'static [&'static str] {
        match self {
            Self::BareMulti | Self::BareCurrent => &["set", "incr", "evalsha"],
            Self::BlpopMulti | Self::BlpopCurrent => &["blpop", "lpush"],
            // They set the key with a plain command, and their release script compares its value before it
            // deletes it.
            Self::Rslock | Self::RslockQuick | Self::PyRedis => &["set", "evalsha"],
            Self::DistributedLock => &["set", "eval"],
            Self::PyRedisLock => &["set", "blpop", "evalsha"],
            Self::RedisMulti
            | Self::RedisCurrent
            | Self::RedisUnpassed
            | Self::RedisUnpassedCurrent
            | Self::RedlockMulti
            | Self::RedlockCurrent
            | Self::RedlockUnpassed
            | Self::ScriptsMulti
            | Self::ScriptsCurrent => &["evalsha"],
            Self::EtcdMulti
            | Self::EtcdCurrent
            | Self::EtcdUnpassed
            | Self::EtcdTxn
            | Self::EtcdQueue
            | Self::EtcdLock => &["Txn", "Range", "Put", "DeleteRange", "Lock", "Unlock"],
            _ => &[],
        }
    }

    /// Whether it needs another crate's client.
    pub(crate) fn needs_peers(self) -> bool {
        matches!(
            self,
            Self::Rslock
                | Self::RslockQuick
                | Self::DistributedLock
                | Self::EtcdTxn
                | Self::EtcdQueue
                | Self::EtcdLock
                | Self::ZookeeperCreate
                | Self::ZookeeperBytes
                | Self::ZookeeperLock
        )
    }

    /// Databases count no requests, and memcached only some.
    fn is_uncounted(self) -> bool {
        matches!(
            self,
            Self::MariadbMulti
                | Self::MariadbCurrent
                | Self::MariadbUnpassed
                | Self::MariadbStatements
                | Self::PostgresMulti
                | Self::PostgresCurrent
                | Self::PostgresUnpassed
                | Self::PostgresStatements
                | Self::SessionMulti
                | Self::SessionCurrent
                | Self::SessionUnpassed
                | Self::SessionBytes
                | Self::SessionStatements
                | Self::SessionBlocks
                | Self::SessionPeer
                | Self::MemcachedMulti
                | Self::MemcachedCurrent
                | Self::MemcachedUnpassed
                | Self::MemcachedMeta
        )
    }

    /// ZooKeeper counts requests, but not by their kinds.
    fn is_on_zookeeper(self) -> bool {
        matches!(
            self,
            Self::ZookeeperMulti
                | Self::ZookeeperCurrent
                | Self::ZookeeperUnpassed
                | Self::ZookeeperCreate
                | Self::ZookeeperBytes
                | Self::ZookeeperLock
        )
    }

    /// The pacing of a task's loop. It must be the same for every compared side, or the ratio means nothing.
    pub(crate) fn pacing(self, workload: Workload) -> Pacing {
        let in_memory =
            matches!(self, Self::MemoryMulti | Self::MemoryCurrent | Self::MutexMulti | Self::MutexCurrent);
        let hands_over = workload == Workload::HandOver;
        let hold = match workload {
            // Long enough that the other process is in the queue again before the release.
            Workload::HandOver => Some(Duration::from_millis(2)),
            Workload::Working => Some(Duration::from_millis(1)),
            _ => None,
        };
        Pacing {
            hold,
            // The core belongs to the receiver: an immediate new request would be measured as part of the
            // hand-over.
            pause: hands_over.then_some(Duration::from_micros(300)),
            // A cycle in memory costs little more than a read of the clock.
            reads_clock_once: in_memory,
        }
    }
}
