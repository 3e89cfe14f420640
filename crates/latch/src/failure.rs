//! What `latch` says when it cannot do its work, and the exit codes that go with it.

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
/// `latch release` took nothing away.
pub(crate) const NOTHING_TAKEN: u8 = 1;
/// A cell is not set, or not what was seen.
pub(crate) const NOT_SET: u8 = 1;
/// What was found out cannot be written to stdout.
pub(crate) const NO_OUTPUT: u8 = 74;

/// Why `latch` ends without the command's own exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// The same for programs: `-E` changes the code, never the kind.
    kind: &'static str,
    /// Empty: the code says it all.
    message: String,
    /// The end of the message: statements to paste, so their line breaks are printed as such.
    sql: Option<String>,
    hint: Option<String>,
    /// Whether the engine is what is wrong, so that the setting that chose it is worth naming.
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

    /// Ended by a signal: whoever sent it knows why.
    pub(crate) fn silent(code: u8) -> Self {
        Self::new(code, "")
    }

    /// A cell is not set, or not what was seen.
    pub(crate) fn not_set(message: impl Into<String>) -> Self {
        Self { kind: "not_set", ..Self::new(NOT_SET, message) }
    }

    /// The server cannot be reached.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { kind: Self::label(ErrorKind::Unreachable), ..Self::new(UNUSABLE, message) }.of_engine()
    }

    /// The word for a kind of error in JSON.
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

    /// Whether the connection failed because of TLS. It fails again until something is changed.
    pub(crate) fn is_about_tls(&self) -> bool {
        self.is_about_tls
    }

    /// Puts what came before the failure in front of its message.
    pub(crate) fn after(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
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

    /// The message, and the statements that stand at its end.
    pub(crate) fn apart(&self) -> (&str, Option<&str>) {
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

    /// The same failure with the code the user chose for "not to be had", if it is one.
    pub(crate) fn or_code(mut self, chosen: Option<u8>) -> Self {
        if let (BUSY | TIMED_OUT, Some(chosen)) = (self.code, chosen) {
            self.code = chosen;
        }
        self
    }

    /// Marks a failure of which the engine or its URL is the cause.
    pub(crate) fn of_engine(self) -> Self {
        Self { is_of_engine: true, ..self }
    }

    /// Adds this hint if the engine is the cause and there is no better one.
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
