//! `--keep-fd`: flock's way. `latch` becomes the command, and the lock lives as long as any process that inherited
//! the session's descriptor. No wrapper remains, so nothing is renewed, forwarded or killed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use latchwork::Guard;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::failure::{Failure, USAGE};
use crate::run;

/// Tells the command the number of the descriptor, so that it can close it.
pub(crate) const DESCRIPTOR_VARIABLE: &str = "LATCH_FD";

/// Becomes the command; returns only if that failed, with the lock given back.
pub(crate) async fn become_command(mut command: Command, session: Option<OwnedFd>, guard: Guard) -> Failure {
    let Some(session) = session else {
        let _ = guard.release().await;
        return Failure::new(USAGE, "--keep-fd: this engine has no descriptor to inherit")
            .hint("use sqlite:");
    };
    command.env(DESCRIPTOR_VARIABLE, session.as_raw_fd().to_string());
    let failure = match fcntl(&session, FcntlArg::F_SETFD(FdFlag::empty())) {
        // Nothing is dropped on the way: exec runs no destructors, so the session's FIFO and the claim stay.
        Ok(_) => {
            let error = command.exec();
            run::cannot_run(&command, &error)
        }
        Err(error) => Failure::new(crate::failure::UNUSABLE, format!("cannot pass the lock on: {error}")),
    };
    let _ = guard.release().await;
    failure
}
