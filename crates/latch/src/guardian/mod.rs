//! The guardian: a small process that outlives a killed `latch` until it has ended the command.
//!
//! The guardian leads the command's process group. So the group's id is known before the command starts, and
//! is not reused for another group later. The guardian keeps the engine's session alive and reads from a
//! socket whose other end only `latch` has. When the socket is closed, `latch` is dead: the guardian kills
//! the command's processes, and only then closes the session.

mod arguments;
mod handle;

use std::io::{ErrorKind, Read};
use std::time::Duration;

use nix::sys::signal::SigSet;
use nix::unistd::{self, Pid};

pub(crate) use self::arguments::GuardianArguments;
pub(crate) use self::handle::Guardian;
use crate::process_tree::ProcessTree;

/// The hidden subcommand, as `ps` shows it.
const SUBCOMMAND: &str = "guardian";
const READY: u8 = b'!';

/// Waits for the end of `latch`, then ends its command. After `ttl` the lease has ended anyway.
fn run(group: Pid, mark: String, ttl: Duration) {
    // The guardian shares the command's group, but the signals to that group are not for the guardian.
    let _ = SigSet::all().thread_block();
    report_ready();
    close_inherited_files();
    wait_for_the_end_of_latch();
    let tree = ProcessTree { group, mark, guardian: Pid::this() };
    tree.kill_until_gone(ttl);
}

/// stdin is a socket: the byte written to it arrives at `latch`.
fn report_ready() {
    let _ = unistd::write(std::io::stdin(), &[READY]);
}

/// Closes everything but the socket and the session: neither pipes of the caller nor its folder must stay in
/// use.
fn close_inherited_files() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        let _ = unistd::close(number);
    }
    let _ = unistd::chdir("/");
}

fn wait_for_the_end_of_latch() {
    let mut socket = std::io::stdin().lock();
    let mut byte = [0];
    loop {
        match socket.read(&mut byte) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // latch never sends anything: end of file and every other error mean that latch has ended.
            _ => return,
        }
    }
}
