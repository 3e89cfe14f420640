//! Where orders come from and answers go.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// The other side of a [`testkit::subject::Subject`].
pub(super) struct Talk {
    ears: Box<dyn BufRead>,
    mouth: Box<dyn Write>,
}

impl Talk {
    /// Over standard input and output.
    pub(super) fn of_this_process() -> Self {
        Self { ears: Box::new(BufReader::new(std::io::stdin())), mouth: Box::new(std::io::stdout()) }
    }

    /// Over a socket of its own: a fork shares everything else with its parent.
    pub(super) fn of_a_fork(socket: &str) -> Self {
        let stream = UnixStream::connect(socket).expect("the test listens");
        let ears = stream.try_clone().expect("a descriptor is left");
        Self { ears: Box::new(BufReader::new(ears)), mouth: Box::new(stream) }
    }

    /// The next order; `None` if nobody gives any more.
    pub(super) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        let heard = self.ears.read_line(&mut line).expect("the pipe works");
        (heard > 0).then(|| line.trim_end().to_owned())
    }

    /// Answers. When nobody listens any more, nobody will give another order either.
    pub(super) fn say(&mut self, answer: &str) {
        let _ = writeln!(self.mouth, "{answer}").and_then(|()| self.mouth.flush());
    }
}
