//! Where orders come from and answers go.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// The other side of a [`testkit::scripted_process::ScriptedProcess`].
pub(super) struct CommandChannel {
    input: Box<dyn BufRead>,
    output: Box<dyn Write>,
}

impl CommandChannel {
    /// Over standard input and output.
    pub(super) fn of_this_process() -> Self {
        Self { input: Box::new(BufReader::new(std::io::stdin())), output: Box::new(std::io::stdout()) }
    }

    /// Over a socket of its own: a fork shares everything else with its parent.
    pub(super) fn of_a_fork(socket: &str) -> Self {
        let stream = UnixStream::connect(socket).expect("the test listens");
        let input = stream.try_clone().expect("a descriptor is left");
        Self { input: Box::new(BufReader::new(input)), output: Box::new(stream) }
    }

    /// The next command; `None` if nobody gives any more.
    pub(super) fn read_command(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.input.read_line(&mut line).expect("the pipe works");
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Answers. When nobody listens any more, nobody will give another command either.
    pub(super) fn write_answer(&mut self, answer: &str) {
        let _ = writeln!(self.output, "{answer}").and_then(|()| self.output.flush());
    }
}
