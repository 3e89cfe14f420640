//! Failures of `latch`: their messages, their hints and their exit codes.

use latchwork::{Error, ErrorKind};

/// The lock is held, and the caller does not wait.
pub(crate) const BUSY: u8 = 75;
/// The wait limit passed.
pub(crate) const TIMED_OUT: u8 = 124;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// The engine cannot be reached or used.
pub(crate) const UNUSABLE: u8 = 69;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 64;
/// The command exists but cannot be run.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// `latch revoke` or `latch release` took no lock away.
pub(crate) const NOTHING_TAKEN: u8 = 1;
/// A cell is not set, or not at the expected version.
pub(crate) const NOT_SET: u8 = 1;
/// The result cannot be written to stdout.
pub(crate) const NO_OUTPUT: u8 = 74;

/// The reason why `latch` exits with a code other than the command's own.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// The kind in JSON. `-E` changes the code, never the kind.
    kind: &'static str,
    /// Empty if the exit code alone tells the reason.
    message: String,
    /// The SQL statements at the end of the message. They are printed with their line breaks, so that they
    /// can be pasted.
    sql: Option<String>,
    hint: Option<String>,
    /// Whether the engine or its URL is the cause. The hint then names the setting that chose the engine.
    is_of_engine: bool,
    /// Whether the connection failed because of TLS.
    is_about_tls: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            kind: kind_of(code),
            message,
            sql: None,
            hint: None,
            is_of_engine: false,
            is_about_tls: false,
        }
    }

    /// Ended by a signal. The sender of the signal knows the reason.
    pub(crate) fn silent(code: u8) -> Self {
        Self::new(code, "")
    }

    /// A cell is not set, or not at the expected version.
    pub(crate) fn not_set(message: impl Into<String>) -> Self {
        Self { kind: "not_set", ..Self::new(NOT_SET, message) }
    }

    /// The server cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { kind: Self::label(ErrorKind::Unreachable), ..Self::new(UNUSABLE, message) }.of_engine()
    }

    /// The name of an error kind in JSON.
    pub(crate) fn label(kind: ErrorKind) -> &'static str {
        match kind {
            ErrorKind::Busy => "busy",
            ErrorKind::TimedOut => "timed_out",
            ErrorKind::Lost => "lost",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Denied => "denied",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Foreign => "foreign",
            ErrorKind::Unreachable => "unreachable",
            _ => "unusable",
        }
    }

    /// Whether the connection failed because of TLS. Another attempt fails until something is changed.
    pub(crate) fn is_about_tls(&self) -> bool {
        self.is_about_tls
    }

    /// Puts the context of the failure in front of its message.
    pub(crate) fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn message(&self) -> Option<&str> {
        Some(self.message.as_str()).filter(|message| !message.is_empty())
    }

    /// The message without the SQL statements at its end, and these statements.
    pub(crate) fn message_and_sql(&self) -> (&str, Option<&str>) {
        let sql = self.sql.as_deref();
        let message = sql.and_then(|sql| self.message.strip_suffix(sql)).unwrap_or(&self.message);
        (message.trim_end_matches('\n'), sql)
    }

    pub(crate) fn get_hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Replaces the exit code of a busy lock or a timeout with the one of `-E`, if it was given.
    pub(crate) fn or_code(mut self, chosen: Option<u8>) -> Self {
        if let (BUSY | TIMED_OUT, Some(chosen)) = (self.code, chosen) {
            self.code = chosen;
        }
        self
    }

    /// Marks a failure whose cause is the engine or its URL.
    pub(crate) fn of_engine(self) -> Self {
        Self { is_of_engine: true, ..self }
    }

    /// Adds this hint if the engine is the cause and there is no other hint.
    pub(crate) fn or_hint(self, hint: impl FnOnce() -> String) -> Self {
        let has_advice = self.hint.is_some() || self.sql.is_some();
        if has_advice || !self.is_of_engine { self } else { self.hint(hint()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Busy => BUSY,
            ErrorKind::TimedOut => TIMED_OUT,
            ErrorKind::Lost => LOST,
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Foreign => USAGE,
            _ => UNUSABLE,
        };
        let (kind, sql) = (Self::label(error.kind()), error.sql().map(str::to_owned));
        let (is_of_engine, is_about_tls) = (code == UNUSABLE, error.is_about_tls());
        Self { kind, sql, is_of_engine, is_about_tls, ..Self::new(code, error.to_string()) }
    }
}

fn kind_of(code: u8) -> &'static str {
    match code {
        BUSY => "busy",
        TIMED_OUT => "timed_out",
        LOST => "lost",
        USAGE => "usage",
        NOT_EXECUTABLE => "not_executable",
        NOT_FOUND => "not_found",
        NOTHING_TAKEN => "nothing_taken",
        NO_OUTPUT => "no_output",
        _ => "unusable",
    }
}
