//! `--pin`: one core for everything. The latency of the same binary varies severalfold when it moves between
//! cores.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::Result;

/// The cores of the run.
pub(crate) enum Pinning {
    CoreZero,
    Free { cores: usize },
}

impl Pinning {
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self, Self::CoreZero)
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CoreZero => write!(f, "pinned to core 0"),
            Self::Free { cores } => write!(f, "not pinned ({cores} cores)"),
        }
    }
}

/// Applies `--pin`: replaces this process by itself under `taskset`, whose mask children inherit.
pub(crate) fn apply(pin: bool, pinned: bool) -> Result<Pinning> {
    if pinned {
        return Ok(Pinning::CoreZero);
    }
    if pin {
        let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--pin");
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(std::env::current_exe()?).args(arguments).arg("--pinned");
        let error = command.exec(); // returns only if it failed
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error.into());
        }
        eprintln!("bench: --pin has no effect: taskset is missing (package util-linux)");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Pinning::Free { cores })
}
