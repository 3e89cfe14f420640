//! The engines. Each has a cargo feature, a page in `docs/`, and a column in GUARANTEES.md.
//!
#![doc = include_str!("table.txt")]
#![cfg_attr(not(feature = "all-engines"), allow(dead_code, reason = "no engine uses all that they share"))]

mod admission;
#[cfg(feature = "_net")]
mod cell_subscriptions;
#[cfg(feature = "_net")]
mod claim_id_hex;
#[cfg(feature = "_net")]
mod close_flag;
#[cfg(feature = "_net")]
mod lost_hints;
#[cfg(feature = "_net")]
mod quarantine;
#[cfg(feature = "_net")]
mod waiter_table;

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "memcached")]
pub mod memcached;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

/// Re-exports the main type of each engine, and lists the engines for the registry. In each row: the feature,
/// the module, the type, and for each way to connect its URL schemes, how to make a client of a URL, and the
/// guarantees of each way to lock.
macro_rules! engines {
    ($($feature:literal $module:ident::$engine:ident {
        $($($scheme:literal)|+ ($url:ident) => $client:expr, promises $($promises:expr),+;)+
    })*) => {
        $(#[cfg(feature = $feature)]
        pub use self::$module::$engine;)*

        /// The engines of this crate, those that are not compiled in included.
        pub(crate) fn all() -> Vec<crate::engine::EngineEntry> {
            use crate::engine::{CompiledEngine, EngineEntry};
            vec![$($(EngineEntry {
                schemes: &[$($scheme),+],
                feature: $feature,
                #[cfg(feature = $feature)]
                compiled: Some(CompiledEngine {
                    connect: |$url| Box::pin($client),
                    guarantees: || vec![$($promises()),+],
                }),
                #[cfg(not(feature = $feature))]
                compiled: None,
            },)+)*]
        }
    };
}

engines! {
    "memory" memory::Memory {
        "memory" (url) => client(Memory::connect(url)), promises Memory::promises;
    }
    "sqlite" sqlite::Sqlite {
        "sqlite" (url) => client(Sqlite::connect(url)), promises Sqlite::promises;
    }
    "etcd" etcd::Etcd {
        "etcd" | "etcd+tls" (url) => client(Etcd::connect(url)), promises Etcd::promises;
    }
    "memcached" memcached::Memcached {
        "memcached" | "memcached+tls" (url) => client(Memcached::connect(url)), promises Memcached::promises;
    }
    "mysql" mysql::Mysql {
        "mysql" | "mysql+tls" | "mariadb" | "mariadb+tls" (url) => mysql::client(url),
            promises Mysql::promises, mysql::MysqlInsert::promises, mysql::MysqlSession::promises;
    }
    "postgres" postgres::Postgres {
        "postgres" | "postgres+tls" | "postgresql" | "postgresql+tls" (url) => postgres::client(url),
            promises Postgres::promises, postgres::PostgresInsert::promises, postgres::PostgresSession::promises;
    }
    "redis" redis::Redis {
        "redis" | "rediss" | "redis+unix" (url) => redis::client(url),
            promises Redis::promises, redis::GetSet::promises;
        "redlock" | "redlock+tls" (url) => client(redis::Redlock::connect(url)),
            promises redis::Redlock::promises;
    }
    "zookeeper" zookeeper::ZooKeeper {
        "zookeeper" | "zookeeper+tls" (url) => client(ZooKeeper::connect(url)),
            promises ZooKeeper::promises, ZooKeeper::promises_of_single;
    }
}

/// A client around an engine that has only one type.
async fn client<E: crate::engine::Engine>(
    connecting: impl Future<Output = crate::Result<E>>,
) -> crate::Result<crate::Client> {
    Ok(crate::Client::new(connecting.await?))
}
