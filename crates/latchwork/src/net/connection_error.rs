//! Why a connection ended, or could not be opened.

use std::{fmt, io};

use super::tls_failure::TlsFailure;
use crate::{Error, ErrorKind};

/// Why a connection ended, or could not be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionError {
    why: String,
    tls: Option<TlsFailure>,
}

impl ConnectionError {
    pub(crate) fn new(why: String, tls: Option<TlsFailure>) -> Self {
        Self { why, tls }
    }

    /// For a TLS handshake that is the first thing on a connection. If the server ends it without a word, the
    /// port may be one without TLS.
    pub(crate) fn of_handshake(error: io::Error) -> Self {
        let mut error = Self::from(error);
        if error.tls.is_none() {
            error.why.push_str("; does this port speak TLS?");
        }
        error
    }

    /// For bytes that a codec cannot parse.
    pub(crate) fn unreadable(bytes: &[u8], why: String) -> Self {
        match TlsFailure::of_plain_reply(bytes) {
            Some(tls) => Self::new(
                "the server answered a request in plain text with a TLS alert".to_owned(),
                Some(tls),
            ),
            None => why.into(),
        }
    }

    /// For a list of servers, each with its name. The error of the engine names the only one of a list.
    pub(crate) fn of_all(mut errors: Vec<(String, Self)>) -> Self {
        if errors.len() == 1 {
            return errors.remove(0).1;
        }
        let is_about_tls = errors.iter().all(|(_, error)| error.tls.is_some());
        let reasons: Vec<_> = errors.iter().map(|(server, error)| format!("{server}: {error}")).collect();
        Self::new(reasons.join("; "), is_about_tls.then_some(TlsFailure::Other))
    }

    /// The TLS failure, if TLS is the reason.
    pub(crate) fn tls(&self) -> Option<TlsFailure> {
        self.tls
    }

    /// The error of the library: `what` and why.
    pub(crate) fn error(&self, what: impl fmt::Display) -> Error {
        let error = Error::new(ErrorKind::Unreachable, format!("{what}: {self}"));
        if self.tls.is_some() { error.with_tls_failure() } else { error }
    }
}

/// The reason, and what to do about it.
impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        match self.tls.map(TlsFailure::advice) {
            None | Some("") => Ok(()),
            Some(advice) => write!(f, "; {advice}"),
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string(), TlsFailure::of(&error))
    }
}

impl From<String> for ConnectionError {
    fn from(why: String) -> Self {
        Self::new(why, None)
    }
}

impl From<&str> for ConnectionError {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}
