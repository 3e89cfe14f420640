//! Raw floors: the least that a lock on the same server, file or runtime must do, without Latchwork.

mod doorbell;
mod flock;
mod mariadb;
mod memcached;
mod mutex;
mod postgres;
mod redis;
mod session;
mod statements;

pub(crate) use doorbell::Doorbell;
pub(crate) use flock::Flock;
pub(crate) use mariadb::row_locks as mariadb_row_locks;
pub(crate) use memcached::meta;
pub(crate) use mutex::mutexes;
pub(crate) use postgres::row_locks as postgres_row_locks;
pub(crate) use redis::{bare, blpop, claim_script, release_script, scripts};
pub(crate) use session::{advisory_locks, session_locks};
pub(crate) use statements::{Statements, open};
