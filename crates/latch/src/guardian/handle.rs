//! The guardian, as `latch` sees it.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::unistd::Pid;

use super::SUBCOMMAND;

/// A running guardian. If `latch` ends without dismissing it, it kills the command.
pub(crate) struct Guardian {
    process: Child,
    line: UnixStream,
    is_deaf: Cell<bool>,
}

impl Guardian {
    /// Starts a guardian in a group of its own, which the command then joins. It keeps `session` open.
    pub(crate) fn start(session: Option<OwnedFd>, mark: &str, ttl: Duration) -> io::Result<Self> {
        let (line, far_end) = UnixStream::pair()?;
        let process = Command::new("/proc/self/exe")
            .arg0("latch")
            .args([SUBCOMMAND, mark, &ttl.as_millis().to_string()])
            .stdin(OwnedFd::from(far_end))
            .stdout(session.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { process, line, is_deaf: Cell::new(false) })
    }

    /// Its process id, which is also the id of the command's group.
    pub(crate) fn id(&self) -> Pid {
        Pid::from_raw(self.process.id() as i32)
    }

    /// Waits until a signal to the group can no longer hurt the guardian. To be called before the first one.
    pub(crate) fn wait_until_deaf(&self) {
        const STARTS_WITHIN: Duration = Duration::from_secs(2);
        if !self.is_deaf.replace(true) {
            let _ = self.line.set_read_timeout(Some(STARTS_WITHIN));
            let _ = (&self.line).read(&mut [0]);
        }
    }

    /// Ends it; the command needs it no more.
    pub(crate) fn dismiss(&mut self) {
        let _ = self.process.kill();
    }

    /// Clears it away after [`Guardian::dismiss`].
    pub(crate) fn bury(mut self) {
        let _ = self.process.wait();
    }
}
