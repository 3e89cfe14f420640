//! The engines. Each has a cargo feature, a page in `docs/`, and a row in GUARANTEES.md.

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(any(feature = "redis", feature = "etcd"))]
mod links;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod news;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "memory", feature = "sqlite"))]
mod rule;
#[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
mod settings;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod tls;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

#[cfg(feature = "etcd")]
pub use etcd::Etcd;
#[cfg(feature = "memory")]
pub use memory::Memory;
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
#[cfg(feature = "zookeeper")]
pub use zookeeper::ZooKeeper;
