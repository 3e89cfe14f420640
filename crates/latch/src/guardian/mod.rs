//! The guardian: a small process that outlives a killed `latch` just long enough to end its command.
//!
//! It leads the command's process group, so the group is known before the command exists and cannot be taken for
//! another's later. It keeps the engine's session alive, and reads from a socket whose other end only `latch` has.
//! When that ends, `latch` is dead: the guardian kills the command's processes, and only then lets go of the session.

mod handle;

use std::io::{ErrorKind, Read};
use std::time::Duration;

use nix::sys::signal::SigSet;
use nix::unistd::{self, Pid};

pub(crate) use self::handle::Guardian;
use crate::process_tree::ProcessTree;

/// The hidden subcommand, as it shows in `ps`.
const SUBCOMMAND: &str = "guardian";
const READY: u8 = b'!';

/// What the guardian is told at its start.
pub(crate) struct Order {
    group: Pid,
    mark: String,
    /// After this long the lease is over anyway.
    ttl: Duration,
}

impl Order {
    /// `latch guardian GROUP MARK TTL_MILLIS` (group 0: its own). Written by [`Guardian::start`] only, and read without
    /// clap: it is a matter of microseconds.
    pub(crate) fn from_arguments() -> Option<Self> {
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

    /// Waits for the end of `latch`, then ends its command.
    pub(crate) fn carry_out(self) {
        // It shares the command's group and must hear none of the signals meant for it.
        let _ = SigSet::all().thread_block();
        say_ready();
        close_inherited_files();
        wait_for_the_end_of_latch();
        let tree = ProcessTree { group: self.group, mark: self.mark, guardian: Pid::this() };
        tree.kill_until_gone(self.ttl);
    }
}

/// stdin is a socket: what is written to it arrives at `latch`.
fn say_ready() {
    let _ = unistd::write(std::io::stdin(), &[READY]);
}

/// Keeps nothing but its socket and the session: neither pipes of the caller nor its folder.
fn close_inherited_files() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        let _ = unistd::close(number);
    }
    let _ = unistd::chdir("/");
}

fn wait_for_the_end_of_latch() {
    let mut line = std::io::stdin().lock();
    let mut byte = [0];
    loop {
        match line.read(&mut byte) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing is ever sent, so whatever this is (an end, a reset), it is the end of latch.
            _ => return,
        }
    }
}
