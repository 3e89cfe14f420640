//! `--keep-fd`, as with flock: `latch` becomes the command, and the lock is held while any process has the
//! inherited descriptor of the session open. No wrapper process remains, so nothing is renewed, forwarded or
//! killed.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use latchwork::Guard;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::failure::{Failure, USAGE};
use crate::run;

/// The number of the descriptor, so that the command can close it.
pub(crate) const DESCRIPTOR_VARIABLE: &str = "LATCH_FD";

/// Becomes the command. Returns only if that failed; the lock is then released.
pub(crate) async fn become_command(mut command: Command, session: Option<OwnedFd>, guard: Guard) -> Failure {
    let Some(session) = session else {
        let _ = guard.release().await;
        return Failure::new(
            USAGE,
            "--keep-fd: this engine has no descriptor that the command could inherit",
        )
        .hint("use --keep-fd with a sqlite: URL");
    };
    command.env(DESCRIPTOR_VARIABLE, session.as_raw_fd().to_string());
    let failure = match fcntl(&session, FcntlArg::F_SETFD(FdFlag::empty())) {
        // exec runs no destructors, so the session's FIFO and the claim stay.
        Ok(_) => {
            let error = command.exec();
            run::cannot_run(&command, &error)
        }
        Err(error) => {
            let message = format!("--keep-fd: the command cannot inherit the lock's descriptor: {error}");
            Failure::new(crate::failure::UNUSABLE, message)
        }
    };
    let _ = guard.release().await;
    failure
}
