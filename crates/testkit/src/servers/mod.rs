//! Real servers, one process each, on a free port of 127.0.0.1 and in a folder of their own.

pub mod certificates;
mod division;
pub mod etcd;
pub mod hostile;
pub mod mariadb;
pub mod memcached;
pub mod pgbouncer;
pub mod pool;
mod port;
pub mod postgres;
mod process;
pub mod redis;
pub mod resp;
mod root;
mod sql_session;
pub mod zookeeper;

pub use certificates::{Certificates, Identity};
pub use etcd::{EtcdCluster, EtcdOptions, EtcdServer, EtcdTls, Etcdctl};
pub use hostile::{Hostile, Hostility, Protocol};
pub use mariadb::{MariadbOptions, MariadbServer};
pub use memcached::{MemcachedOptions, MemcachedServer, MemcachedTls};
pub use pgbouncer::Pgbouncer;
pub use pool::{Leased, Pool, Pooled};
pub use postgres::{PostgresOptions, PostgresServer};
pub use redis::{RedisOptions, RedisServer, RedisTls};
pub use resp::{Reply, Resp};
pub use sql_session::SqlSession;
pub use zookeeper::{ZooKeeperAdmin, ZooKeeperMember, ZooKeeperMeter, ZooKeeperOptions, ZooKeeperServer};
