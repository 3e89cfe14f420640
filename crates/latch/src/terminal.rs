//! The controlling terminal, which has one foreground group at a time.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{self, Pid};

/// The terminal of the shell that started `latch`. It is lent to the command's group while that is in the
/// foreground.
pub(crate) struct Terminal {
    device: File,
    own: Pid,
    lent_to: Option<Pid>,
}

impl Terminal {
    /// `None` if this process has no controlling terminal.
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let device =
            OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open("/dev/tty").ok()?;
        // Otherwise tcsetpgrp from the background would stop this process. The command does not inherit the
        // mask: std starts children with no signal blocked.
        let mut background_output = SigSet::empty();
        background_output.add(Signal::SIGTTOU);
        background_output.thread_block().ok()?;
        Some(Self { device, own: unistd::getpgrp(), lent_to: None })
    }

    /// Lends the terminal to a command that is about to start. A command in a pipeline does not get it,
    /// because the other end of the pipeline may need it too. Lending it before the start means that no read
    /// of the command is too early.
    pub(crate) fn lend_at_start(&mut self, group: Pid) {
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            self.lend(group);
        }
    }

    /// Makes `group` the foreground group, if this process's group has the terminal. Returns whether `group`
    /// has it.
    pub(crate) fn lend(&mut self, group: Pid) -> bool {
        if self.is_foreground(group) {
            return true;
        }
        if self.is_foreground(self.own) && unistd::tcsetpgrp(&self.device, group).is_ok() {
            self.lent_to = Some(group);
            return true;
        }
        false
    }

    pub(crate) fn is_lent(&self) -> bool {
        self.lent_to.is_some()
    }

    pub(crate) fn take_back(&mut self) {
        if self.lent_to.take().is_some() {
            let _ = unistd::tcsetpgrp(&self.device, self.own);
        }
    }

    fn is_foreground(&self, group: Pid) -> bool {
        unistd::tcgetpgrp(&self.device) == Ok(group)
    }
}

/// However the run ends, the shell gets its terminal back.
impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
