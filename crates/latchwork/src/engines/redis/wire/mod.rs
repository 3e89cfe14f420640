//! RESP3, the protocol of Redis, as far as locks need it.

mod command;
mod reader;
mod reply;
mod scan_progress;

use std::borrow::Cow;

pub(super) use self::command::{Arg, Command};
pub(super) use self::reply::{Reply, parse};
pub(super) use self::scan_progress::ScanProgress;
use crate::net::connection_error::ConnectionError;

/// The maximum length of a reply, in bytes. The engine's own are far shorter: it lists locks in steps.
pub(super) const MAX_REPLY: usize = 64 * 1024 * 1024;

/// Why a request has no reply, or an error as its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WireError {
    /// An error reply: a code, and a message.
    Refused(String),
    /// The server does not speak RESP3. Its message is left out: it may repeat the request, which has the
    /// password.
    TooOld,
    /// The server does not have the database with this number. With the server's message.
    NoDatabase(String),
    /// The connection was closed, or could not be opened.
    Closed(ConnectionError),
    /// No reply arrived in time.
    TimedOut(String),
}

impl WireError {
    /// The code of an error reply: its first word.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(message) => message.split(' ').next(),
            Self::TooOld | Self::NoDatabase(_) | Self::Closed(_) | Self::TimedOut(_) => None,
        }
    }

    pub(super) fn message(&self) -> Cow<'_, str> {
        match self {
            Self::Refused(why) | Self::NoDatabase(why) | Self::TimedOut(why) => why.into(),
            Self::Closed(error) => error.to_string().into(),
            Self::TooOld => {
                "it does not know HELLO 3; it must be Redis 6.2 or newer, and have that command".into()
            }
        }
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message())
    }
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Closed(error.into())
    }
}

impl From<ConnectionError> for WireError {
    fn from(error: ConnectionError) -> Self {
        Self::Closed(error)
    }
}
