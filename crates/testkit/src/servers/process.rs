//! The process of a server.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

/// A running server. Killed when dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it; what it prints is added to the file `output`. `package` is what to install if it is missing.
    pub(crate) fn start(command: &mut Command, package: &str, output: &Path) -> Self {
        let file = File::options().create(true).append(true).open(output).expect("the folder is ours");
        let errors = file.try_clone().expect("a second handle");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| {
            let program = command.get_program().display();
            panic!("{program} does not start ({error}); install the package {package}")
        });
        Self { child }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// `kill -9`, and waits until it is gone. Does nothing if it is gone already.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Stops it, and waits until it stands still.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        // Ended is asked for as well, and left to be waited for by others: a process that is gone never stops.
        let what = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.id()), what).expect("it is our child");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        kill(self.id(), signal).expect("it is our child");
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.pid() as i32)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
