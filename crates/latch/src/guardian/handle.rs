//! The guardian process, from the side of `latch`.

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

/// A running guardian. If `latch` ends without [`Guardian::dismiss`], the guardian kills the command.
pub(crate) struct Guardian {
    session: Option<OwnedFd>,
    mark: String,
    ttl: Duration,
    /// The guardian and its predecessors. The first one leads the command's group and is reaped last, because
    /// its process id must not be reused before.
    processes: Vec<Child>,
    socket: UnixStream,
    blocks_signals: Cell<bool>,
}

impl Guardian {
    /// Starts a guardian in a group of its own, which the command then joins. The guardian keeps `session`
    /// open.
    pub(crate) fn start(session: Option<OwnedFd>, mark: String, ttl: Duration) -> io::Result<Self> {
        let (socket, guardian_end) = UnixStream::pair()?;
        let blocks_signals = Cell::new(false);
        let mut guardian = Self { session, mark, ttl, processes: Vec::new(), socket, blocks_signals };
        guardian.spawn(guardian_end)?;
        Ok(guardian)
    }

    /// The command's group.
    pub(crate) fn group(&self) -> Pid {
        id(&self.processes[0])
    }

    /// Waits until the guardian blocks signals, so that a signal to the group cannot end it. To be called
    /// before the first such signal.
    pub(crate) fn wait_until_signals_blocked(&self) {
        const START_LIMIT: Duration = Duration::from_secs(2);
        if !self.blocks_signals.replace(true) {
            let _ = self.socket.set_read_timeout(Some(START_LIMIT));
            let _ = (&self.socket).read(&mut [0]);
        }
    }

    /// Starts another guardian if this one was killed, for example by a command that signals its own group
    /// before the guardian blocks signals.
    pub(crate) fn replace_if_dead(&mut self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let last = self.processes.last().map(id).unwrap_or_else(Pid::this);
        if matches!(waitid(Id::Pid(last), flags), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)))
            && let Ok((socket, guardian_end)) = UnixStream::pair()
        {
            self.socket = socket;
            let _ = self.spawn(guardian_end);
        }
    }

    /// Ends the guardian: the command has ended.
    pub(crate) fn dismiss(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
        }
    }

    /// Reaps the processes after [`Guardian::dismiss`].
    pub(crate) fn reap(self) {
        for mut process in self.processes {
            let _ = process.wait();
        }
    }

    fn spawn(&mut self, socket: UnixStream) -> io::Result<()> {
        let session = self.session.as_ref().map(OwnedFd::try_clone).transpose()?;
        let group = self.processes.first().map_or(0, Child::id);
        let process = Command::new("/proc/self/exe")
            .arg0("latch")
            .args([SUBCOMMAND, &group.to_string(), &self.mark, &self.ttl.as_millis().to_string()])
            .stdin(OwnedFd::from(socket))
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
