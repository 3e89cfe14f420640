//! The floors of the Redis engine: the same crate, the same kind of connection and the same server, without
//! Latchwork.

mod bare;
mod blpop;
mod connection;
mod scripts;

pub(crate) use bare::bare;
pub(crate) use blpop::blpop;
pub(crate) use scripts::{claim_script, release_script, scripts};
