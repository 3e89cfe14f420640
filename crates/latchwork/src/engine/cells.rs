//! The second, smaller contract: values with versions.
//!
//! # The contract
//!
//! | id | rule |
//! |---|---|
//! | V1 | `write_if` acts only if the cell's version is the one that was seen; of all that saw the same, one at most is done. |
//! | V2 | Every write has a greater version than every earlier one of this cell, also if it was deleted in between. |
//! | V3 | `read` is never older than a write that was answered before it was asked. |
//! | V4 | `watch` misses no change since the version that was seen, may be dropped at any await, and may wake for nothing. |
//! | V5 | Every error says whether the server may have acted. |
//! | V6 | Where an engine has leaders, `read` is what the holder of the lock of this name tells ([`Claim::tells`](super::Claim::tells)), with the holder's token as its version; nothing, if nobody holds or the holder tells nothing. Nobody can write it. |

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::Boxed;
use crate::{Error, ErrorKind, LockName, Result};

/// Which write of a cell this is. Greater than that of every earlier write of the same cell, also if the cell was deleted in
/// between.
///
/// It may not fit a double: in JSON it is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u128);

impl Version {
    /// Of a cell that is not set.
    pub const ABSENT: Self = Self(0);

    /// The version with this number, as read back from a server.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// The number to store and compare.
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = text.bytes().all(|digit| digit.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain).map(Self).ok_or_else(|| {
            let message = format!(
                "{text:?} is no version; write the digits that `get` showed, or 0 for a cell that is not set"
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// The state of a cell. A cell that is not set has a state as well: [`Version::ABSENT`] and no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellState {
    /// The write that put it there; [`Version::ABSENT`] if it is not set.
    pub version: Version,
    /// The bytes; `None` if it is not set. An empty value is set.
    pub value: Option<Vec<u8>>,
}

impl CellState {
    /// Of a cell that is not set.
    pub const ABSENT: Self = Self { version: Version::ABSENT, value: None };

    /// Of a cell that was set to `value` by the write `version`.
    pub const fn new(version: Version, value: Vec<u8>) -> Self {
        Self { version, value: Some(value) }
    }

    /// Whether the cell is set.
    pub const fn is_set(&self) -> bool {
        self.value.is_some()
    }

    /// The value as bytes; `None` if the cell is not set.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// The value as text; `None` if the cell is not set.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the value is not UTF-8.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let config = latchwork::connect("memory:").await?.cell("config");
    /// assert_eq!(config.get().await?.text()?, None);
    /// config.set("colour = blue").await?;
    /// assert_eq!(config.get().await?.text()?, Some("colour = blue"));
    /// # Ok(()) }
    /// ```
    pub fn text(&self) -> Result<Option<&str>> {
        self.bytes().map(text_of).transpose()
    }
}

/// The text that was stored as these bytes.
pub(crate) fn text_of(value: &[u8]) -> Result<&str> {
    std::str::from_utf8(value).map_err(|error| {
        let message = format!("the value is not UTF-8 text: {error}; read it as bytes");
        Error::new(ErrorKind::Corrupt, message)
    })
}

/// The answer to `write_if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The cell has this version now; [`Version::ABSENT`] if it was deleted.
    Done(Version),
    /// The cell is not what was seen, and was left as it is.
    Changed,
}

/// Cells beside locks: what an engine must do for them, and nothing more. Names of cells are unrelated to those of locks.
///
/// The [module documentation](self) states the rules V1 to V6.
pub trait Cells: Send + Sync + 'static {
    /// How long the core waits for `watch` before it looks all the same, at a cell that has not changed for so long.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration;

    /// The state of the cell; [`CellState::ABSENT`] if it is not set.
    ///
    /// # Contract
    /// V3, V5.
    fn read(&self, name: &LockName) -> impl Future<Output = Result<CellState>> + Send;

    /// Whether the cell is another than `seen`. Where nobody is told of changes, watchers ask this again and again: there it
    /// fetches no value.
    ///
    /// # Contract
    /// V3, V5.
    fn has_changed(&self, name: &LockName, seen: Version) -> impl Future<Output = Result<bool>> + Send;

    /// Sets the cell to `value`, or deletes it, if its version is still `seen`.
    ///
    /// # Contract
    /// V1, V2, V5.
    fn write_if(
        &self,
        name: &LockName,
        seen: Version,
        value: Option<&[u8]>,
    ) -> impl Future<Output = Result<Written>> + Send;

    /// Waits until the cell may be another than `seen`. Never ends on an engine that tells nobody of changes.
    ///
    /// # Contract
    /// V4. An error says that listening cannot be restored now.
    fn watch(&self, name: &LockName, seen: Version) -> impl Future<Output = Result<()>> + Send;
}

/// The cells of an engine, whatever it is.
#[derive(Clone)]
pub struct SharedCells {
    pub(crate) values: Arc<dyn ErasedCells>,
    pub(crate) leaders: Option<Arc<dyn ErasedCells>>,
}

impl SharedCells {
    /// A handle on these cells.
    pub fn new(cells: impl Cells) -> Self {
        Self { values: Arc::new(cells), leaders: None }
    }

    /// And on what holders of locks tell, if the engine keeps that with their claims (V6). Without it, elections keep it in a
    /// cell of the same name.
    pub fn with_leaders(self, leaders: impl Cells) -> Self {
        Self { leaders: Some(Arc::new(leaders)), ..self }
    }

    /// Whether the engine keeps what holders tell with their claims.
    pub fn has_leaders(&self) -> bool {
        self.leaders.is_some()
    }
}

/// The boxed twin of [`Cells`].
pub(crate) trait ErasedCells: Send + Sync {
    fn poll_interval(&self, unchanged_for: Duration) -> Duration;
    fn read(self: Arc<Self>, name: LockName) -> Boxed<Result<CellState>>;
    fn has_changed(self: Arc<Self>, name: LockName, seen: Version) -> Boxed<Result<bool>>;
    fn write_if(
        self: Arc<Self>,
        name: LockName,
        seen: Version,
        value: Option<Vec<u8>>,
    ) -> Boxed<Result<Written>>;
    fn watch(self: Arc<Self>, name: LockName, seen: Version) -> Boxed<Result<()>>;
}

impl<C: Cells> ErasedCells for C {
    fn poll_interval(&self, unchanged_for: Duration) -> Duration {
        Cells::poll_interval(self, unchanged_for)
    }
    fn read(self: Arc<Self>, name: LockName) -> Boxed<Result<CellState>> {
        Box::pin(async move { Cells::read(&*self, &name).await })
    }
    fn has_changed(self: Arc<Self>, name: LockName, seen: Version) -> Boxed<Result<bool>> {
        Box::pin(async move { Cells::has_changed(&*self, &name, seen).await })
    }
    fn write_if(
        self: Arc<Self>,
        name: LockName,
        seen: Version,
        value: Option<Vec<u8>>,
    ) -> Boxed<Result<Written>> {
        Box::pin(async move { Cells::write_if(&*self, &name, seen, value.as_deref()).await })
    }
    fn watch(self: Arc<Self>, name: LockName, seen: Version) -> Boxed<Result<()>> {
        Box::pin(async move { Cells::watch(&*self, &name, seen).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_differ_by_one_stay_different_as_text() {
        for number in [1, 1 << 53, (1 << 63) - 1, (1 << 96) - 1] {
            let (one, next) = (Version::new(number), Version::new(number + 1));
            assert_ne!(one.to_string(), next.to_string());
            assert_eq!(next.to_string().parse::<Version>().unwrap(), next);
        }
        for bad in ["", "-1", "+1", "1.5", "0x10", "one"] {
            assert_eq!(bad.parse::<Version>().unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
