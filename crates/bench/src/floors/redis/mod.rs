//! What the Redis engine stands on: the same crate, the same kind of connection, the same server, without us.

mod bare;
mod blpop;
mod connection;
mod scripts;

pub(crate) use bare::bare;
pub(crate) use blpop::blpop;
pub(crate) use scripts::{claim_script, release_script, scripts};
