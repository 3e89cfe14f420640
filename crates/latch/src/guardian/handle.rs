//! The guardian, as `latch` sees it.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::SUBCOMMAND;

/// A running guardian. If `latch` ends without dismissing it, it kills the command.
pub(crate) struct Guardian {
    session: Option<OwnedFd>,
    mark: String,
    ttl: Duration,
    /// The first leads the command's group, and is not cleared away before the end: its id must stay taken.
    processes: Vec<Child>,
    line: UnixStream,
    is_deaf: Cell<bool>,
}

impl Guardian {
    /// Starts a guardian in a group of its own, which the command then joins. It keeps `session` open.
    pub(crate) fn start(session: Option<OwnedFd>, mark: String, ttl: Duration) -> io::Result<Self> {
        let (line, far_end) = UnixStream::pair()?;
        let mut guardian =
            Self { session, mark, ttl, processes: Vec::new(), line, is_deaf: Cell::new(false) };
        guardian.spawn(far_end)?;
        Ok(guardian)
    }

    /// The command's group.
    pub(crate) fn group(&self) -> Pid {
        id(&self.processes[0])
    }

    /// Waits until a signal to the group can no longer hurt the guardian. To be called before the first one.
    pub(crate) fn wait_until_deaf(&self) {
        const STARTS_WITHIN: Duration = Duration::from_secs(2);
        if !self.is_deaf.replace(true) {
            let _ = self.line.set_read_timeout(Some(STARTS_WITHIN));
            let _ = (&self.line).read(&mut [0]);
        }
    }

    /// Puts another in its place if it was killed, for example by a command that signals its own group before the
    /// guardian is deaf.
    pub(crate) fn replace_if_dead(&mut self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let last = self.processes.last().map(id).unwrap_or_else(Pid::this);
        if matches!(waitid(Id::Pid(last), flags), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)))
            && let Ok((line, far_end)) = UnixStream::pair()
        {
            self.line = line;
            let _ = self.spawn(far_end);
        }
    }

    /// Ends it; the command needs it no more.
    pub(crate) fn dismiss(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
        }
    }

    /// Clears it away after [`Guardian::dismiss`].
    pub(crate) fn bury(self) {
        for mut process in self.processes {
            let _ = process.wait();
        }
    }

    fn spawn(&mut self, line: UnixStream) -> io::Result<()> {
        let session = self.session.as_ref().map(OwnedFd::try_clone).transpose()?;
        let group = self.processes.first().map_or(0, Child::id);
        let process = Command::new("/proc/self/exe")
            .arg0("latch")
            .args([SUBCOMMAND, &group.to_string(), &self.mark, &self.ttl.as_millis().to_string()])
            .stdin(OwnedFd::from(line))
            .stdout(session.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        self.processes.push(process);
        Ok(())
    }
}

fn id(process: &Child) -> Pid {
    Pid::from_raw(process.id() as i32)
}
