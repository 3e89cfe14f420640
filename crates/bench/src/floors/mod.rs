//! What our locks stand on, without us.

mod bell;
mod flock;
mod mariadb;
mod memcached;
mod mutex;
mod postgres;
mod redis;
mod session;
mod statements;

pub(crate) use bell::Bell;
pub(crate) use flock::Flock;
pub(crate) use mariadb::statements as mariadb_statements;
pub(crate) use memcached::meta;
pub(crate) use mutex::mutexes;
pub(crate) use postgres::statements as postgres_statements;
pub(crate) use redis::{bare, blpop, claim_script, release_script, scripts};
pub(crate) use session::{pairs as session_pairs, statements as session_statements};
pub(crate) use statements::{Statements, open};
