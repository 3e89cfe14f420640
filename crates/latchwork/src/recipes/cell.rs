//! Cells: values with a version.

use std::sync::Arc;

use super::CellWatch;
use super::optimistic::pause;
use crate::core::{ClientHandle, defaults};
use crate::engine::{CellState, ErasedCells, Version, Written};
use crate::error::Subject;
use crate::{Client, Error, ErrorKind, LockName, Result};

/// A value of up to 512 KiB with a version, shared by all clients. Created by [`Client::cell`].
///
/// [`Cell::set`] replaces any value. [`Cell::set_if`] and [`Cell::update`] replace only the value that was
/// seen, so that no client undoes the change of another.
#[derive(Clone)]
pub struct Cell {
    core: ClientHandle,
    /// `Err`: the rejected name, reported when the cell is used.
    name: Result<LockName, Arc<Error>>,
    /// The noun by which errors name it.
    subject: Subject,
    /// Whether it is the value that the holder of the lock of this name publishes.
    is_of_leaders: bool,
}

impl Client {
    /// Describes a cell. Nothing is sent before it is read or written. A lock of the same name is unrelated.
    ///
    /// # Guarantees
    /// Of all conditional writes with the same version, at most one sets the cell. Every write has a greater
    /// version than all earlier ones, also if the cell was deleted in between: an old version never matches
    /// again. A value stays until it is deleted, for as long as the data of the engine exists.
    ///
    /// # Errors
    /// Its methods fail with [`ErrorKind::Unsupported`] where [`Guarantees::cells`](crate::Guarantees::cells)
    /// is false, and with [`ErrorKind::Invalid`] for a bad name.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// use latchwork::Written;
    ///
    /// let client = latchwork::connect("memory:").await?;
    /// let config = client.cell("config");
    /// let before = config.get().await?;
    /// assert!(!before.is_set());
    /// config.set("green").await?;
    /// assert_eq!(config.set_if(before.version, "red").await?, Written::Changed, "another write came first");
    /// assert_eq!(config.get().await?.text()?, Some("green"));
    /// # Ok(()) }
    /// ```
    pub fn cell(&self, name: impl AsRef<str>) -> Cell {
        let name = LockName::new(name).map_err(Arc::new);
        Cell { core: self.core().clone(), name, subject: Subject::Cell, is_of_leaders: false }
    }
}

impl Cell {
    /// The largest value, in bytes.
    pub const MAX_BYTES: usize = defaults::CELL_BYTES;

    /// The state of the cell. A cell that is not set is no error: see [`CellState::is_set`].
    ///
    /// # Guarantees
    /// Never older than a write whose reply had arrived at any client before this was called.
    ///
    /// # Cancel safety
    /// Only reads, and may be dropped at any time.
    ///
    /// # Errors
    /// The errors of [`Client::cell`] and of the engine.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let result = client.cell("result").get().await?;
    /// assert_eq!((result.is_set(), result.text()?), (false, None));
    /// # Ok(()) }
    /// ```
    pub async fn get(&self) -> Result<CellState> {
        let (name, cells) = self.checked()?;
        let read = self.core.answer(cells.read(name.clone()), self.core.clock.now()).await;
        read.map_err(|error| self.about(error))
    }

    /// Sets the cell to `value`, and returns its new version.
    ///
    /// It reads the version and writes with [`Cell::set_if`], and repeats both if another client wrote in
    /// between: two round trips without contention.
    ///
    /// # Guarantees
    /// The new version is greater than all earlier ones.
    ///
    /// # Cancel safety
    /// As [`Cell::set_if`].
    ///
    /// # Errors
    /// As [`Cell::update`]. A write whose reply is missing is not repeated, because the repetition could undo
    /// a later write of another client. It is an error with [`Effect::Unknown`](crate::Effect::Unknown); the
    /// caller may call this again.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let config = latchwork::connect("memory:").await?.cell("config");
    /// let first = config.set("colour = blue").await?;
    /// let second = config.set("colour = green").await?;
    /// assert!(second > first);
    /// assert_eq!(config.get().await?.text()?, Some("colour = green"));
    /// # Ok(()) }
    /// ```
    pub async fn set(&self, value: impl Into<Vec<u8>>) -> Result<Version> {
        let value = value.into();
        Ok(self.replace(|_| Some(value.clone())).await?.new.version)
    }

    /// Deletes the value, and returns whether the cell was set.
    ///
    /// # Guarantees
    /// The version of the next write is still greater than all earlier ones.
    ///
    /// # Cancel safety
    /// As [`Cell::set_if`].
    ///
    /// # Errors
    /// As [`Cell::set`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let cell = latchwork::connect("memory:").await?.cell("result");
    /// let first = cell.set("42").await?;
    /// assert!(cell.delete().await?);
    /// assert!(!cell.delete().await?, "it was deleted already");
    /// assert!(cell.set("43").await? > first);
    /// # Ok(()) }
    /// ```
    pub async fn delete(&self) -> Result<bool> {
        Ok(self.replace(|_| None).await?.old.is_set())
    }

    /// Sets the cell to `value` if its version is still `seen`, which is [`Version::ABSENT`] for a cell that
    /// is not set.
    ///
    /// # Guarantees
    /// Of all conditional writes with the same `seen`, at most one is done.
    ///
    /// # Cancel safety
    /// When it is dropped before it returns, the cell may or may not have been set: read it again.
    ///
    /// # Errors
    /// The errors of [`Client::cell`], [`ErrorKind::Invalid`] for more than [`Cell::MAX_BYTES`], and the
    /// errors of the engine. After an error with [`Effect::Unknown`](crate::Effect::Unknown), the cell may or
    /// may not have been set.
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
        self.write_if(seen, Some(value.into())).await
    }

    /// Deletes the value if the version of the cell is still `seen`.
    ///
    /// # Guarantees
    /// As [`Cell::set_if`] and [`Cell::delete`].
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
    /// let version = cell.set("42").await?;
    /// cell.delete_if(version).await?;
    /// assert!(!cell.get().await?.is_set());
    /// # Ok(()) }
    /// ```
    pub async fn delete_if(&self, seen: Version) -> Result<Written> {
        if seen == Version::ABSENT {
            let message = "a cell that is not set cannot be deleted; give the version that `get` showed";
            return Err(self.about(Error::new(ErrorKind::Invalid, message)));
        }
        self.write_if(seen, None).await
    }

    /// Replaces the value with the result of `change`, which gets the present value (`None`: not set). It is
    /// repeated if another client wrote in between.
    ///
    /// # Guarantees
    /// The new value was computed from exactly the value that it replaces.
    ///
    /// # Cancel safety
    /// As [`Cell::set_if`].
    ///
    /// # Errors
    /// As [`Cell::set_if`], and [`ErrorKind::TimedOut`] if other clients wrote first for 30 s. A write whose
    /// reply is missing is not repeated, because it could be done twice. It is an error with
    /// [`Effect::Unknown`](crate::Effect::Unknown).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let visits = latchwork::connect("memory:").await?.cell("visits");
    /// for _ in 0..3 {
    ///     visits.update(|old| [old.unwrap_or_default(), b"x"].concat()).await?;
    /// }
    /// assert_eq!(visits.get().await?.text()?, Some("xxx"));
    /// # Ok(()) }
    /// ```
    pub async fn update(&self, mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<CellState> {
        Ok(self.replace(|old| Some(change(old))).await?.new)
    }

    /// Follows the states of the cell: the present one, and then each change.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let cell = latchwork::connect("memory:").await?.cell("config");
    /// let mut states = cell.watch();
    /// assert!(!states.next().await?.is_set(), "not set yet");
    /// cell.set("blue").await?;
    /// assert_eq!(states.next().await?.text()?, Some("blue"));
    /// cell.delete().await?;
    /// assert!(!states.next().await?.is_set(), "deleted");
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> CellWatch {
        CellWatch::new(self.clone())
    }

    /// Replaces the value with the result of `change`, or deletes it; repeated if another client wrote in
    /// between. Nothing is written if the cell is not set and stays so.
    async fn replace(&self, mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<Replaced> {
        let limit = self.core.clock.now().after(defaults::UPDATE_LIMIT);
        let mut longest = defaults::UPDATE_FIRST_PAUSE;
        loop {
            let old = self.get().await?;
            let value = change(old.bytes());
            if value.is_none() && !old.is_set() {
                return Ok(Replaced { old, new: CellState::ABSENT });
            }
            if let Written::Done(version) = self.write_if(old.version, value.clone()).await? {
                return Ok(Replaced { old, new: CellState { version, value } });
            }
            let now = self.core.clock.now();
            if now >= limit {
                let limit = defaults::UPDATE_LIMIT;
                let message = format!(
                    "other clients wrote first for {limit:?}; let fewer clients write, or take a lock around it"
                );
                return Err(self.about(Error::new(ErrorKind::TimedOut, message)));
            }
            pause(self.core.clock, longest).await;
            longest = (longest * 2).min(defaults::UPDATE_LONGEST_PAUSE);
        }
    }

    async fn write_if(&self, seen: Version, value: Option<Vec<u8>>) -> Result<Written> {
        if let Some(length) = value.as_ref().map(Vec::len).filter(|length| *length > Self::MAX_BYTES) {
            let most = Self::MAX_BYTES;
            let message = format!("the value is {length} bytes long; a cell holds at most {most}");
            return Err(self.about(Error::new(ErrorKind::Invalid, message)));
        }
        let (name, cells) = self.checked()?;
        let write = cells.write_if(name.clone(), seen, value);
        self.core.answer(write, self.core.clock.now()).await.map_err(|error| self.about(error))
    }

    /// The cell of an election: the value that the holder of the lock publishes, if the engine stores that
    /// with claims.
    pub(super) fn of_leaders(mut self) -> Self {
        self.subject = Subject::Election;
        self.is_of_leaders = self.core.engine.cells().is_some_and(|cells| cells.has_leaders());
        self
    }

    pub(super) fn is_of_leaders(&self) -> bool {
        self.is_of_leaders
    }

    pub(super) fn core(&self) -> &ClientHandle {
        &self.core
    }

    /// The error, naming this cell or its election.
    pub(super) fn about(&self, error: Error) -> Error {
        match &self.name {
            Ok(name) => error.about_a(self.subject, name),
            Err(_) => error,
        }
    }

    /// The name and the cells of the engine, if the name is valid and the engine has cells.
    pub(super) fn checked(&self) -> Result<(&LockName, Arc<dyn ErasedCells>)> {
        let name = self.name.as_ref().map_err(|error| error.again())?;
        self.core.refuse_a_copy().map_err(|error| self.about(error))?;
        let cells = self.core.engine.cells().filter(|_| self.core.promised.cells);
        match cells.and_then(|cells| if self.is_of_leaders { cells.leaders } else { Some(cells.values) }) {
            Some(cells) => Ok((name, cells)),
            None => {
                let engine = self.core.promised.engine;
                let needs = if self.subject == Subject::Election { ", which elections need" } else { "" };
                let message = format!("{engine} has no cells{needs}; `latch engines` names those that have");
                Err(self.about(Error::new(ErrorKind::Unsupported, message)))
            }
        }
    }
}

/// The states before and after a write.
struct Replaced {
    old: CellState,
    new: CellState,
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("name", &self.name).finish_non_exhaustive()
    }
}
