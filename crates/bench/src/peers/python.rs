//! Locks of Python libraries, in an interpreter of the user.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::plan::spelled;
use crate::worker_processes::WorkerOptions;

/// Uses the protocol of this program's children: ready, start, samples.
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
pub(crate) fn command(options: &WorkerOptions<'_>, python: &Path) -> Result<Command> {
    let (workload, pace) = (options.workload, options.side.pacing(options.workload));
    let seconds = |span: Option<std::time::Duration>| span.unwrap_or_default().as_secs_f64().to_string();
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, &spelled(options.side)]);
    command.arg(options.url.ok_or("a python side needs a server")?).arg(workload.lock_name(0));
    command.args([workload.tasks().to_string(), options.millis.to_string()]);
    command.args([seconds(pace.hold), seconds(pace.pause)]);
    Ok(command)
}
