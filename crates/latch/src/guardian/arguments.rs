//! The command line of the guardian.

use std::time::Duration;

use nix::unistd::{self, Pid};

use super::SUBCOMMAND;

/// `latch guardian GROUP MARK TTL_MILLIS`. Group 0 is the guardian's own.
pub(crate) struct GuardianArguments {
    group: Pid,
    mark: String,
    ttl: Duration,
}

impl GuardianArguments {
    /// Only [`Guardian::start`](super::Guardian::start) writes these arguments. They are parsed without clap,
    /// because the guardian must be ready within microseconds.
    pub(crate) fn parse() -> Option<Self> {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next()? != SUBCOMMAND {
            return None;
        }
        let group = match arguments.next()?.to_str()?.parse().ok()? {
            0 => unistd::getpgrp(),
            group => Pid::from_raw(group),
        };
        let mark = arguments.next()?.into_string().ok()?;
        let millis = arguments.next()?.to_str()?.parse().ok()?;
        Some(Self { group, mark, ttl: Duration::from_millis(millis) })
    }

    /// Runs the guardian in this process.
    pub(crate) fn run_guardian(self) {
        super::run(self.group, self.mark, self.ttl);
    }
}
