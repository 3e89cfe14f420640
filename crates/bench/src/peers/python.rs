//! Locks of python, in a python of the user's.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::fleet::Orders;
use crate::plan::spelled;

/// Speaks as the children of this program do: ready, go, and its turns.
const SCRIPT: &str = include_str!("peers.py");

/// Why a module cannot be used.
pub(super) fn missing(module: &str, python: Option<&Path>) -> Option<String> {
    let Some(python) = python else { return Some("give --python PATH".into()) };
    let mut import = Command::new(python);
    import.args(["-c", &format!("import {module}")]).stdin(Stdio::null()).stderr(Stdio::null());
    match import.status() {
        Ok(status) if status.success() => None,
        Ok(_) => Some(format!("{} has no module {module}", python.display())),
        Err(error) => Some(format!("{}: {error}", python.display())),
    }
}

/// A child process of a python side.
pub(crate) fn command(orders: &Orders<'_>, python: &Path) -> Result<Command> {
    let (workload, pace) = (orders.workload, orders.side.pace(orders.workload));
    let seconds = |span: Option<std::time::Duration>| span.unwrap_or_default().as_secs_f64().to_string();
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, &spelled(orders.side)]);
    command.arg(orders.url.ok_or("a python side needs a server")?).arg(workload.lock_name(0));
    command.args([workload.tasks().to_string(), orders.millis.to_string()]);
    command.args([seconds(pace.hold), seconds(pace.pause)]);
    Ok(command)
}
