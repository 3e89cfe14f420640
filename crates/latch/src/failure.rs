//! What `latch` says when it cannot do its work, and the exit codes that go with it.

use latchwork::engine::EngineUrl;
use latchwork::{Error, ErrorKind};

/// Somebody else holds the lock and the caller did not want to wait.
pub(crate) const BUSY: u8 = 75;
/// The wait limit passed.
pub(crate) const TIMED_OUT: u8 = 124;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// The engine cannot be reached or used.
pub(crate) const UNUSABLE: u8 = 69;
/// The call is wrong.
pub(crate) const USAGE: u8 = 64;
/// The command exists and cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why `latch` ends without the command's own exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// Empty: the code says it all.
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Ended by a signal: whoever sent it knows why.
    pub(crate) fn silent(code: u8) -> Self {
        Self::new(code, "")
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure with the code the user chose for "not to be had", if it is one.
    pub(crate) fn or_code(mut self, chosen: Option<u8>) -> Self {
        if let (BUSY | TIMED_OUT, Some(chosen)) = (self.code, chosen) {
            self.code = chosen;
        }
        self
    }

    /// The same failure, naming the knob if the database is what is wrong.
    pub(crate) fn about_database(self, url: &EngineUrl) -> Self {
        let is_named = self.message.contains("LATCH_URL");
        if url.scheme() != "sqlite" || is_named || !matches!(self.code, UNUSABLE | USAGE) {
            return self;
        }
        self.hint("choose another database with LATCH_URL=sqlite:/path/locks.db")
    }

    /// Prints it, and returns the exit code.
    pub(crate) fn report(&self) -> u8 {
        if !self.message.is_empty() {
            say(&self.message);
        }
        if let Some(hint) = &self.hint {
            eprint(&format!("hint: {}", printable(hint)));
        }
        self.code
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Busy => BUSY,
            ErrorKind::TimedOut => TIMED_OUT,
            ErrorKind::Lost => LOST,
            ErrorKind::Invalid | ErrorKind::Unsupported => USAGE,
            _ => UNUSABLE,
        };
        Self::new(code, error.to_string())
    }
}

/// One line on stderr.
pub(crate) fn say(message: &str) {
    eprint(&format!("latch: {}", printable(message)));
}

/// Text from outside (holder notes, paths, arguments) must not steer the terminal or forge a second line.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_debug()) } else { shown.push(c) }
    }
    shown
}

/// A closed stderr is no reason to panic while a command runs.
fn eprint(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{9b}é🔒"), "a\\u{1b}[2J\\nb\\u{9b}é🔒");
    }
}
