//! A pseudoterminal with a program in it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use crate::support::eventually;

/// A program on a pseudoterminal, as the leader of a session of its own.
pub(crate) struct Pty {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
    program: Child,
}

impl Pty {
    pub(crate) fn start(program: &Command) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        session.current_dir(program.get_current_dir().unwrap());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        session
            .stdin(pty.slave.try_clone().unwrap())
            .stdout(pty.slave.try_clone().unwrap())
            .stderr(pty.slave);
        let program = session.spawn().unwrap();
        drop(session);
        let (keyboard, screen) = (File::from(pty.master), Arc::default());
        collect_output(keyboard.try_clone().unwrap(), Arc::clone(&screen));
        Self { keyboard, screen, seen: 0, program }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until `text` appears after the text of earlier calls.
    #[track_caller]
    pub(crate) fn see(&mut self, text: &str) {
        let (screen, seen) = (self.screen.clone(), self.seen);
        let mut at = None;
        let mut look = || {
            at = screen.lock().unwrap()[seen..].find(text).map(|at| seen + at + text.len());
            at.is_some()
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(text, &mut look)));
        assert!(found.is_ok(), "no {text:?} after byte {seen} of {:?}", self.screen());
        self.seen = at.unwrap();
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.program.wait().unwrap().code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Collects the output until the last program has closed the terminal.
fn collect_output(mut terminal: File, screen: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = terminal.read(&mut bytes) {
            screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    });
}
