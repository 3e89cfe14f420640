//! The client that an event belongs to.

use std::fmt;
use std::str::FromStr;

/// A client of a process. Tasks that share a client share its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// The process id.
    pub process: u32,
    /// The client's number within its process; zero is the process itself.
    pub client: u32,
}

impl Tag {
    /// A process as a whole: a kill ends all its clients.
    pub const fn process(process: u32) -> Self {
        Self { process, client: 0 }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.process, self.client)
    }
}

impl FromStr for Tag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(process, client)| {
            Some(Self { process: process.parse().ok()?, client: client.parse().ok()? })
        });
        parts.ok_or_else(|| format!("{text:?} is no process.client"))
    }
}
