//! A value with a version, shared by all clients.

use std::sync::Arc;

use super::CellWatch;
use super::optimistic::pause;
use crate::core::{ClientHandle, defaults};
use crate::engine::{CellState, ErasedCells, Version, Written};
use crate::{Client, Error, ErrorKind, LockName, Result};

/// A value of up to 512 KiB with a version, shared by all clients. Made by [`Client::cell`].
///
/// To set it takes the version that was seen: whoever read an older value is told so, instead of undoing what another did.
#[derive(Clone)]
pub struct Cell {
    core: ClientHandle,
    /// Or the text that is none.
    name: Result<LockName, Arc<str>>,
    /// Whether it is what the holder of the lock of this name tells.
    is_of_leaders: bool,
}

impl Client {
    /// Describes a cell; nothing is sent before it is read or set. A lock of the same name is unrelated.
    ///
    /// # Guarantees
    /// Of all who saw the same version, one at most sets the cell. Every write has a greater version than all before it, also
    /// if the cell was deleted in between: an old version never fits again. What was set stays until it is deleted; for as
    /// long as the engine's data does.
    ///
    /// # Errors
    /// Using it is [`ErrorKind::Unsupported`] where [`Guarantees::cells`](crate::Guarantees::cells) says no, and
    /// [`ErrorKind::Invalid`] for a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::{Version, Written};
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let config = client.cell("config");
    /// let Written::Done(first) = config.set_if(Version::ABSENT, "blue").await? else { panic!("it was not set") };
    /// config.update(|_| b"green".to_vec()).await?;
    /// assert_eq!(config.set_if(first, "red").await?, Written::Changed, "somebody was faster");
    /// assert_eq!(config.get().await?.expect("set").value, b"green");
    /// # Ok(()) }
    /// ```
    pub fn cell(&self, name: impl AsRef<str>) -> Cell {
        let name = name.as_ref();
        let name = LockName::new(name).map_err(|_| name.into());
        Cell { core: self.core().clone(), name, is_of_leaders: false }
    }
}

impl Cell {
    /// The largest value, in bytes.
    pub const MAX_BYTES: usize = defaults::CELL_BYTES;

    /// What it holds; `None` if it is not set.
    ///
    /// # Guarantees
    /// Never older than a write that was answered before this was called, on whatever client.
    ///
    /// # Cancel safety
    /// Reads only; may be dropped at any time.
    ///
    /// # Errors
    /// Those of [`Client::cell`], and what the engine says.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// assert_eq!(client.cell("result").get().await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn get(&self) -> Result<Option<CellState>> {
        let (name, cells) = self.checked()?;
        let read = self.core.answer(cells.read(name.clone()), self.core.clock.now()).await;
        read.map_err(|error| error.about(name))
    }

    /// Sets it to `value` if its version is still `seen`; [`Version::ABSENT`] if it is not set.
    ///
    /// # Cancel safety
    /// Dropped half-way, it may or may not have been set: read it again.
    ///
    /// # Errors
    /// Those of [`Client::cell`], [`ErrorKind::Invalid`] for more than [`Cell::MAX_BYTES`], and what the engine says. After an
    /// error with [`Effect::Unknown`](crate::Effect::Unknown), it may or may not have been set.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::{Version, Written};
    ///
    /// let cell = latchwork::connect("memory:").await?.cell("result");
    /// assert!(matches!(cell.set_if(Version::ABSENT, "42").await?, Written::Done(_)));
    /// assert_eq!(cell.set_if(Version::ABSENT, "43").await?, Written::Changed);
    /// # Ok(()) }
    /// ```
    pub async fn set_if(&self, seen: Version, value: impl Into<Vec<u8>>) -> Result<Written> {
        let value = value.into();
        if value.len() > Self::MAX_BYTES {
            let (is, most) = (value.len(), Self::MAX_BYTES);
            let message = format!("the value is {is} bytes long; a cell takes {most} at most");
            return Err(self.about(Error::new(ErrorKind::Invalid, message)));
        }
        self.write_if(seen, Some(value)).await
    }

    /// Deletes it if its version is still `seen`. Its next version is greater all the same.
    ///
    /// # Cancel safety
    /// As [`Cell::set_if`].
    ///
    /// # Errors
    /// As [`Cell::set_if`], and [`ErrorKind::Invalid`] for [`Version::ABSENT`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let cell = latchwork::connect("memory:").await?.cell("result");
    /// let set = cell.update(|_| b"42".to_vec()).await?;
    /// cell.delete_if(set.version).await?;
    /// assert_eq!(cell.get().await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn delete_if(&self, seen: Version) -> Result<Written> {
        if seen == Version::ABSENT {
            let message = "a cell that is not set cannot be deleted; give the version that `get` showed";
            return Err(self.about(Error::new(ErrorKind::Invalid, message)));
        }
        self.write_if(seen, None).await
    }

    /// Sets it to what `change` makes of the value that is there, again and again until nobody was faster.
    ///
    /// # Guarantees
    /// What is set was made of the very value that it replaces.
    ///
    /// # Cancel safety
    /// As [`Cell::set_if`].
    ///
    /// # Errors
    /// As [`Cell::set_if`], and [`ErrorKind::TimedOut`] if others were faster for 30 s. A write whose answer is missing is not
    /// repeated, because it might be done twice: that is an error with [`Effect::Unknown`](crate::Effect::Unknown).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let visits = latchwork::connect("memory:").await?.cell("visits");
    /// for _ in 0..3 {
    ///     visits.update(|old| [old.unwrap_or_default(), b"x"].concat()).await?;
    /// }
    /// assert_eq!(visits.get().await?.expect("set").value, b"xxx");
    /// # Ok(()) }
    /// ```
    pub async fn update(&self, mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<CellState> {
        let limit = self.core.clock.now().after(defaults::UPDATE_LIMIT);
        let mut longest = defaults::UPDATE_FIRST_PAUSE;
        loop {
            let old = self.get().await?;
            let value = change(old.as_ref().map(|old| old.value.as_slice()));
            let seen = Version::of(&old);
            if let Written::Done(version) = self.set_if(seen, value.as_slice()).await? {
                return Ok(CellState { version, value });
            }
            let now = self.core.clock.now();
            if now >= limit {
                let limit = defaults::UPDATE_LIMIT;
                let message =
                    format!("others were faster for {limit:?}; let fewer write, or take a lock around it");
                return Err(self.about(Error::new(ErrorKind::TimedOut, message)));
            }
            pause(self.core.clock, longest).await;
            longest = (longest * 2).min(defaults::UPDATE_LONGEST_PAUSE);
        }
    }

    /// Follows its changes.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let cell = latchwork::connect("memory:").await?.cell("config");
    /// let mut changes = cell.watch();
    /// assert_eq!(changes.next().await?, None, "not set yet");
    /// let set = cell.update(|_| b"blue".to_vec()).await?;
    /// assert_eq!(changes.next().await?, Some(set));
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> CellWatch {
        CellWatch::new(self.clone())
    }

    async fn write_if(&self, seen: Version, value: Option<Vec<u8>>) -> Result<Written> {
        let (name, cells) = self.checked()?;
        let write = cells.write_if(name.clone(), seen, value);
        self.core.answer(write, self.core.clock.now()).await.map_err(|error| error.about(name))
    }

    /// The same for what the holder of the lock of this name tells, if the engine keeps that with claims.
    pub(super) fn of_leaders(mut self) -> Self {
        self.is_of_leaders = self.core.engine.cells().is_some_and(|cells| cells.has_leaders());
        self
    }

    pub(super) fn is_of_leaders(&self) -> bool {
        self.is_of_leaders
    }

    pub(super) fn core(&self) -> &ClientHandle {
        &self.core
    }

    fn about(&self, error: Error) -> Error {
        match &self.name {
            Ok(name) => error.about(name),
            Err(_) => error,
        }
    }

    /// Its name and the engine's cells, if it has some.
    pub(super) fn checked(&self) -> Result<(&LockName, Arc<dyn ErasedCells>)> {
        let name = match &self.name {
            Ok(name) => name,
            Err(text) => return Err(LockName::new(text).expect_err("it was refused before")),
        };
        self.core.refuse_a_copy().map_err(|error| error.about(name))?;
        let cells = self.core.engine.cells().filter(|_| self.core.promised.cells);
        match cells.and_then(|cells| if self.is_of_leaders { cells.leaders } else { Some(cells.values) }) {
            Some(cells) => Ok((name, cells)),
            None => {
                let engine = self.core.promised.engine;
                let message = format!("{engine} has no cells; `latch engines` names those that have");
                Err(Error::new(ErrorKind::Unsupported, message).about(name))
            }
        }
    }
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("name", &self.name).finish_non_exhaustive()
    }
}
