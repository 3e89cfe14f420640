//! RESP3, Redis' protocol, as far as locks need it.

mod begun;
mod command;
mod reader;
mod value;

use std::borrow::Cow;

pub(super) use self::begun::Begun;
pub(super) use self::command::{Arg, Command};
pub(super) use self::value::{Value, read};
use crate::net::connection_error::ConnectionError;

/// The longest reply that is read. Ours are far shorter: whoever lists locks does it in steps.
pub(super) const LONGEST_REPLY: usize = 64 * 1024 * 1024;

/// Why there is no answer, or a bad one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WireError {
    /// The server said no: a code, and words.
    Refused(String),
    /// It does not speak the protocol. Without its words: it may repeat what it was sent, and that is a password.
    TooOld,
    /// It has no database of this number, in its words.
    NoDatabase(String),
    /// The connection ended, or there was none.
    Ended(ConnectionError),
    /// Nothing was heard for too long.
    TimedOut(String),
}

impl WireError {
    /// The first word of what the server said.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(words) => words.split(' ').next(),
            Self::TooOld | Self::NoDatabase(_) | Self::Ended(_) | Self::TimedOut(_) => None,
        }
    }

    /// The words of the server, or why there are none.
    pub(super) fn words(&self) -> Cow<'_, str> {
        match self {
            Self::Refused(why) | Self::NoDatabase(why) | Self::TimedOut(why) => why.into(),
            Self::Ended(error) => error.to_string().into(),
            Self::TooOld => {
                "it does not know HELLO 3; it must be Redis 6.2 or newer, and have that command".into()
            }
        }
    }
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words())
    }
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error.into())
    }
}

impl From<ConnectionError> for WireError {
    fn from(error: ConnectionError) -> Self {
        Self::Ended(error)
    }
}
