//! The properties of a server, from its reply to INFO.

use std::time::Duration;

use super::options::Options;
use crate::{Error, ErrorKind, Result};

/// The oldest version with everything the scripts need (`SET ... GET`).
const MIN_VERSION: (u32, u32) = (6, 2);

/// A server, as its INFO describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerInfo {
    /// Changes with every start.
    pub(super) run_id: String,
    /// It has run for at least this long.
    pub(super) uptime: Duration,
    /// Whether data survives a restart.
    pub(super) is_durable: bool,
    version: String,
    is_replica: bool,
    /// Its maxmemory-policy, if that can evict locks.
    eviction_policy: Option<String>,
}

impl ServerInfo {
    pub(super) fn of(info: &str) -> Self {
        let mut server = Self::default();
        let mut max_memory = false;
        for (key, value) in info.lines().filter_map(|line| line.trim_end().split_once(':')) {
            match key {
                "run_id" => server.run_id = value.to_owned(),
                "redis_version" => server.version = value.to_owned(),
                // Whole seconds of the wall clock: a second that has just begun counts in full.
                "uptime_in_seconds" => {
                    server.uptime = Duration::from_secs(value.parse::<u64>().unwrap_or(0).saturating_sub(1));
                }
                "aof_enabled" => server.is_durable = value == "1",
                "role" => server.is_replica = value == "slave",
                "maxmemory" => max_memory = value != "0",
                "maxmemory_policy" => {
                    server.eviction_policy = (value != "noeviction").then(|| value.to_owned())
                }
                _ => {}
            }
        }
        server.eviction_policy = server.eviction_policy.filter(|_| max_memory);
        server
    }

    /// # Errors
    /// [`ErrorKind::Unsupported`] for a server that is too old, [`ErrorKind::Unreachable`] for a replica,
    /// which may become the master.
    pub(super) fn check(&self, options: &Options) -> Result<()> {
        let shown_as = &options.shown_as;
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version < MIN_VERSION {
            let message =
                format!("redis at {shown_as} is version {:?}; it must be 6.2 or newer", self.version);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if self.is_replica {
            let message = format!("redis at {shown_as} is a replica, which grants no locks; name the master");
            return Err(Error::new(ErrorKind::Unreachable, message));
        }
        Ok(())
    }

    /// Settings of the server that its administrator should change.
    pub(super) fn warnings(&self) -> Vec<String> {
        let warning = |policy: &String| {
            format!(
                "this server may evict locks (maxmemory-policy {policy}): a lock that is held can be granted to \
                 another; set maxmemory-policy noeviction"
            )
        };
        self.eviction_policy.iter().map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n\r\n# Memory\r\n\
                    maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\nrole:master\r\n";
        let server = ServerInfo::of(info);
        assert_eq!((server.run_id.as_str(), server.uptime.as_secs(), server.is_durable), ("abc", 11, true));
        assert!(server.warnings()[0].contains("allkeys-lru"));
        assert!(ServerInfo::of(&info.replace("maxmemory:100", "maxmemory:0")).warnings().is_empty());
        assert!(!ServerInfo::of(&info.replace("role:master", "role:slave")).warnings().is_empty());
    }
}
