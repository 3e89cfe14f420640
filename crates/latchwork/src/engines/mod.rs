//! The engines. Each has a cargo feature, a page in `docs/`, and a row in GUARANTEES.md.

#[cfg(any(feature = "redis", feature = "postgres"))]
mod cell_news;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(any(feature = "redis", feature = "etcd", feature = "postgres"))]
mod links;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod mailbox;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod news;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "redis", feature = "postgres"))]
mod pulse;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "memory", feature = "postgres", feature = "sqlite"))]
mod rule;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis", feature = "zookeeper"))]
mod settings;
#[cfg(feature = "postgres")]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "zookeeper"))]
mod tls;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(feature = "etcd")]
pub use etcd::Etcd;
#[cfg(feature = "memory")]
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
#[cfg(feature = "zookeeper")]
pub use zookeeper::ZooKeeper;
