//! The engines. Each has a cargo feature, a page in `docs/`, and a row in GUARANTEES.md.

#[cfg(any(feature = "redis", feature = "postgres"))]
mod cell_news;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod claim_id_hex;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod mailbox;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(any(feature = "etcd", feature = "mysql", feature = "postgres", feature = "zookeeper"))]
mod news;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "postgres")]
mod pulse;
#[cfg(any(feature = "memcached", feature = "redis"))]
mod quarantine;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "memory", feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod rule;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
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
