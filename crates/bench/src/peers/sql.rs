//! Session locks of distributed-lock 0.2, in a program of their own: its crates cannot be linked beside our SQLite.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::fleet::Orders;

/// A child process of that side.
pub(crate) fn command(orders: &Orders<'_>, program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    command.arg(orders.url.ok_or("a peer needs a server")?).arg(orders.workload.lock_name(0));
    command.arg(orders.millis.to_string());
    Ok(command)
}
