//! Owner ids: the identity of a holder across restarts.

use std::fmt;
use std::sync::Arc;

use crate::Result;
use crate::names;

/// The identity of a holder across restarts of its process: 1 to 128 bytes of UTF-8 without control
/// characters.
///
/// See [`Lock::owner`](crate::Lock::owner).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(Arc<str>);

impl OwnerId {
    /// The longest id, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks an id.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is empty, too long, or contains a control
    /// character.
    pub fn new(id: impl AsRef<str>) -> Result<Self> {
        names::check("owner id", id.as_ref(), Self::MAX_BYTES)?;
        Ok(Self(id.as_ref().into()))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
