//! The engines. Each has a cargo feature, a page in `docs/`, and a row in GUARANTEES.md.

#[cfg(any(feature = "memory", feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod admission;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod cell_subscriptions;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod claim_id_hex;
#[cfg(feature = "postgres")]
mod close_flag;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "zookeeper"))]
mod lost_hints;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod quarantine;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod waiter_table;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(feature = "etcd")]
pub use etcd::Etcd;
#[cfg(feature = "memcached")]
pub use memcached::Memcached;
#[cfg(feature = "memory")]
pub use memory::Memory;
#[cfg(feature = "mysql")]
pub use mysql::Mysql;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
#[cfg(feature = "zookeeper")]
pub use zookeeper::ZooKeeper;
