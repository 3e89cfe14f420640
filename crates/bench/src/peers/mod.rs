//! Peers: locks of other libraries on the same server, for comparison. A peer that is not installed is left
//! out, with a note.

#[cfg(feature = "peers")]
pub(crate) mod distributed_lock;
mod distributed_lock_sql;
#[cfg(feature = "peers")]
pub(crate) mod etcd;
mod python;
#[cfg(feature = "peers")]
mod rslock;
#[cfg(feature = "peers")]
pub(crate) mod zookeeper;

use crate::args::Args;
use crate::plan::Side;

pub(crate) use self::distributed_lock_sql::command as sql_command;
pub(crate) use self::python::command;
#[cfg(feature = "peers")]
pub(crate) use self::rslock::rslock_locks;

/// The URL of each server in a URL of several.
#[cfg(feature = "peers")]
fn server_urls(url: &str) -> Vec<String> {
    let addresses = url.split("://").nth(1).unwrap_or(url).split('?').next().unwrap_or_default();
    addresses.split(',').map(|address| format!("redis://{address}")).collect()
}

/// Why a side cannot be measured, if it is a peer that is not installed.
pub(crate) fn missing(side: Side, args: &Args) -> Option<String> {
    match side {
        side if side.needs_peers() && cfg!(not(feature = "peers")) => {
            Some("build with --features peers".into())
        }
        Side::SessionPeer => args.sql_peers.is_none().then(|| "give --sql-peers PATH".into()),
        Side::PyRedis => python::missing("redis", args.python.as_deref()),
        Side::PyRedisLock => python::missing("redis_lock", args.python.as_deref()),
        _ => None,
    }
}
