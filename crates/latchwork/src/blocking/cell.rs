//! Cells, for code without async.

use std::time::Duration;

use super::runtime_thread::RuntimeThread;
use crate::Result;
use crate::engine::{CellState, Version, Written};

/// As [`latchwork::Cell`](crate::Cell), with calls that block.
#[derive(Clone, Debug)]
pub struct Cell {
    inner: crate::Cell,
    thread: RuntimeThread,
}

impl Cell {
    pub(super) fn new(inner: crate::Cell, thread: RuntimeThread) -> Self {
        Self { inner, thread }
    }

    /// The state of the cell, as [`Cell::get`](crate::Cell::get).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn get(&self) -> Result<CellState> {
        self.thread.block_on(self.inner.get())
    }

    /// Sets the cell to `value`, as [`Cell::set`](crate::Cell::set).
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let config = latchwork::blocking::connect("memory:")?.cell("config");
    /// config.set("blue")?;
    /// assert_eq!(config.get()?.text()?, Some("blue"));
    /// assert!(config.delete()?);
    /// assert!(!config.get()?.is_set());
    /// # Ok(()) }
    /// ```
    pub fn set(&self, value: impl Into<Vec<u8>>) -> Result<Version> {
        self.thread.block_on(self.inner.set(value))
    }

    /// Deletes the value, and returns whether the cell was set, as [`Cell::delete`](crate::Cell::delete).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn delete(&self) -> Result<bool> {
        self.thread.block_on(self.inner.delete())
    }

    /// Sets the cell to `value` if its version is still `seen`, as [`Cell::set_if`](crate::Cell::set_if).
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// use latchwork::{Version, Written};
    ///
    /// let config = latchwork::blocking::connect("memory:")?.cell("config");
    /// let Written::Done(first) = config.set_if(Version::ABSENT, "blue")? else { panic!("it was not set") };
    /// config.set("green")?;
    /// assert_eq!(config.set_if(first, "red")?, Written::Changed, "another write came first");
    /// # Ok(()) }
    /// ```
    pub fn set_if(&self, seen: Version, value: impl Into<Vec<u8>>) -> Result<Written> {
        self.thread.block_on(self.inner.set_if(seen, value))
    }

    /// Deletes the value if the version of the cell is still `seen`, as
    /// [`Cell::delete_if`](crate::Cell::delete_if).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn delete_if(&self, seen: Version) -> Result<Written> {
        self.thread.block_on(self.inner.delete_if(seen))
    }

    /// Replaces the value with the result of `change`, as [`Cell::update`](crate::Cell::update).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn update(&self, change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<CellState> {
        self.thread.block_on(self.inner.update(change))
    }

    /// Follows the states of the cell, as [`Cell::watch`](crate::Cell::watch).
    pub fn watch(&self) -> CellWatch {
        CellWatch { inner: self.inner.watch(), thread: self.thread.clone() }
    }
}

/// As [`latchwork::CellWatch`](crate::CellWatch), with calls that block.
#[derive(Debug)]
pub struct CellWatch {
    inner: crate::CellWatch,
    thread: RuntimeThread,
}

impl CellWatch {
    /// The state of the cell, as [`CellWatch::next`](crate::CellWatch::next): the first call returns at once,
    /// every later call after a change. `None` if `within` passed without a change; [`Duration::MAX`] waits
    /// for ever. The next call misses no change.
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// use std::time::Duration;
    ///
    /// let cell = latchwork::blocking::connect("memory:")?.cell("config");
    /// let mut states = cell.watch();
    /// let Some(now) = states.next(Duration::from_secs(5)) else { panic!("the first state comes at once") };
    /// assert!(!now?.is_set(), "not set yet");
    /// assert!(states.next(Duration::from_millis(1)).is_none(), "no change");
    /// cell.set("blue")?;
    /// let Some(now) = states.next(Duration::MAX) else { panic!("there is no limit") };
    /// assert_eq!(now?.text()?, Some("blue"));
    /// # Ok(()) }
    /// ```
    pub fn next(&mut self, within: Duration) -> Option<Result<CellState>> {
        self.thread.block_on(async { tokio::time::timeout(within, self.inner.next()).await.ok() })
    }
}
