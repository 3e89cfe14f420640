//! Session locks of distributed-lock 0.2, in a separate program: its crates cannot be linked beside
//! Latchwork's SQLite.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::worker_processes::WorkerOptions;

/// A child process of that side.
pub(crate) fn command(options: &WorkerOptions<'_>, program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command.arg(options.url.ok_or("a peer needs a server")?).arg(options.workload.lock_name(0));
    command.arg(options.millis.to_string());
    Ok(command)
}
