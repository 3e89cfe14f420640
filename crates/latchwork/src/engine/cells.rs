//! The contract of cells: values with versions.
//!
//! # The contract
//!
//! | id | rule |
//! |---|---|
//! | V1 | `write_if` acts only if the cell's version is still `seen`. Of all writes with the same `seen`, at most one is done. |
//! | V2 | Every write has a greater version than all earlier writes of the same cell, also if the cell was deleted in between. |
//! | V3 | `read` returns no state older than a write whose reply had arrived before the `read` was sent. |
//! | V4 | `watch` misses no change since `seen`. It may be dropped at any await, and may return without a change. |
//! | V5 | Every error says whether the server may have acted ([`Effect`](crate::Effect)). |
//! | V6 | Where an engine has leaders, `read` returns the value that the holder of the lock of this name publishes ([`Claim::tells`](super::Claim::tells)), with the holder's token as its version. It is absent without a holder, or if the holder publishes nothing. It cannot be written. |

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::Boxed;
use crate::{Error, ErrorKind, LockName, Result};

/// The version of a write: greater than the versions of all earlier writes of the same cell, also if the cell
/// was deleted in between.
///
/// It may not fit a double, so it is text in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u128);

impl Version {
    /// The version of a cell that is not set.
    pub const ABSENT: Self = Self(0);

    /// The version with this number, as stored on a server.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// The number to store and to compare.
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
                "{text:?} is not a version; write the digits that `get` showed, or 0 for a cell that is not set"
            );
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

/// The state of a cell. A cell that is not set has a state as well: [`Version::ABSENT`] and no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellState {
    /// The version of the newest write; [`Version::ABSENT`] if the cell is not set.
    pub version: Version,
    /// The bytes; `None` if the cell is not set. An empty value is set.
    pub value: Option<Vec<u8>>,
}

impl CellState {
    /// The state of a cell that is not set.
    pub const ABSENT: Self = Self { version: Version::ABSENT, value: None };

    /// The state after the write `version` set the cell to `value`.
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

/// The bytes of a value as text.
pub(crate) fn text_of(value: &[u8]) -> Result<&str> {
    std::str::from_utf8(value).map_err(|error| {
        let message = format!("the value is not UTF-8 text: {error}; read it as bytes");
        Error::new(ErrorKind::Corrupt, message)
    })
}

/// The result of `write_if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The cell has this version now: [`Version::ABSENT`] if it was deleted.
    Done(Version),
    /// The cell has another version than `seen`, and was not changed.
    Changed,
}

/// The cells of an engine. Names of cells and names of locks are unrelated.
///
/// The [module documentation](self) states the rules V1 to V6.
pub trait Cells: Send + Sync + 'static {
    /// The time that the core waits for `watch` before it polls a cell that has not changed for this long.
    fn poll_interval(&self, unchanged_for: Duration) -> Duration;

    /// The state of the cell; [`CellState::ABSENT`] if it is not set.
    ///
    /// # Contract
    /// V3, V5.
    fn read(&self, name: &LockName) -> impl Future<Output = Result<CellState>> + Send;

    /// Whether the cell has another version than `seen`. Where the server announces no changes, watchers poll
    /// with this call, which then fetches no value.
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

    /// Waits until the cell may have another version than `seen`. Pending for ever on an engine whose server
    /// announces no changes.
    ///
    /// # Contract
    /// V4. An error means that the subscription cannot be restored now.
    fn watch(&self, name: &LockName, seen: Version) -> impl Future<Output = Result<()>> + Send;
}

/// The cells of any engine.
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

    /// Adds the values that holders of locks publish, if the engine stores those with their claims (V6).
    /// Without them, elections use a cell of the same name.
    pub fn with_leaders(self, leaders: impl Cells) -> Self {
        Self { leaders: Some(Arc::new(leaders)), ..self }
    }

    /// Whether the engine stores the values of holders with their claims.
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
