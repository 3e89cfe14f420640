//! The channel over which commands arrive and answers are sent.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// The other side of a [`testkit::scripted_process::ScriptedProcess`].
pub(super) struct CommandChannel {
    input: Box<dyn BufRead>,
    output: Box<dyn Write>,
}

impl CommandChannel {
    /// A channel over standard input and output.
    pub(super) fn of_this_process() -> Self {
        Self { input: Box::new(BufReader::new(std::io::stdin())), output: Box::new(std::io::stdout()) }
    }

    /// A channel over a socket of its own: a fork shares every other descriptor with its parent.
    pub(super) fn of_a_fork(socket: &str) -> Self {
        let stream = UnixStream::connect(socket).expect("the test listens");
        let input = stream.try_clone().expect("a descriptor is left");
        Self { input: Box::new(BufReader::new(input)), output: Box::new(stream) }
    }

    /// The next command; `None` at the end of the input.
    pub(super) fn read_command(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.input.read_line(&mut line).expect("the pipe works");
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// Writes an answer. A reader that is gone will send no further command, so errors are ignored.
    pub(super) fn write_answer(&mut self, answer: &str) {
        let _ = writeln!(self.output, "{answer}").and_then(|()| self.output.flush());
    }
}
