//! What our locks stand on, without us.

mod bell;
mod flock;
mod mutex;
mod redis;
mod statements;
mod zookeeper;

pub(crate) use bell::Bell;
pub(crate) use flock::Flock;
pub(crate) use mutex::mutexes;
pub(crate) use redis::{bare, blpop, claim_script, release_script, scripts};
pub(crate) use statements::{Statements, open};
pub(crate) use zookeeper::{connections, creates, own_locks};
