//! A session of a database's own command-line client: statements go in one by one, and each is answered by
//! one line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running command. Ended when dropped.
pub struct SqlSession {
    process: Child,
    statements: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl SqlSession {
    /// `command` reads statements from its standard input.
    pub(super) fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the command of the database starts");
        let (statements, answers) = (process.stdin.take(), process.stdout.take());
        let (statements, answers) = statements.zip(answers).expect("both are piped");
        Self { process, statements, answers: BufReader::new(answers) }
    }

    /// The one-line answer to statements.
    ///
    /// # Panics
    /// If the server refuses them.
    pub fn ask(&mut self, sql: &str) -> String {
        let mut line = String::new();
        writeln!(self.statements, "{sql};").expect("the command runs");
        let read = self.answers.read_line(&mut line).expect("the command answers");
        assert!(read > 0, "refused: {sql}");
        line.trim_end().to_owned()
    }
}

impl Drop for SqlSession {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
