//! The changes of a cell.

use std::time::Duration;

use super::Cell;
use crate::clock::Moment;
use crate::core::defaults;
use crate::engine::{CellState, Version};
use crate::{ErrorKind, Result};

/// Follows the changes of a cell. Made by [`Cell::watch`].
#[derive(Debug)]
pub struct CellWatch {
    cell: Cell,
    /// What was shown last, and when; nothing was yet.
    shown: Option<(Version, Moment)>,
}

impl CellWatch {
    pub(super) fn new(cell: Cell) -> Self {
        Self { cell, shown: None }
    }

    pub(super) fn cell(&self) -> &Cell {
        &self.cell
    }

    /// What the cell holds, `None` if it is not set: the first time at once, and then each time when it is another.
    ///
    /// # Guarantees
    /// The latest value always arrives. Values that were replaced meanwhile are skipped. How soon, is
    /// [`Guarantees::watchers_told`](crate::Guarantees::watchers_told).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the next call goes on.
    ///
    /// # Errors
    /// Those of [`Client::cell`](crate::Client::cell), and what the engine says. An outage is waited out for 30 s; it may be
    /// called again after an error, and misses nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> latchwork::Result<()> {
    /// let client = latchwork::connect("memory:").await?;
    /// let mut result = client.cell("result").watch();
    /// let worker = client.cell("result");
    /// tokio::spawn(async move { worker.update(|_| b"42".to_vec()).await });
    /// let found = loop {
    ///     if let Some(found) = result.next().await? {
    ///         break found;
    ///     }
    /// };
    /// assert_eq!(found.value, b"42");
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Result<Option<CellState>> {
        let core = self.cell.core().clone();
        let (mut outage, mut pause) = (None, defaults::FAILED_FIRST_PAUSE);
        loop {
            let trouble = match self.cell.get().await {
                Ok(state) => {
                    let (version, now) = (Version::of(&state), core.clock.now());
                    if self.shown.is_none_or(|(shown, _)| shown != version) {
                        self.shown = Some((version, now));
                        return Ok(state);
                    }
                    outage = None;
                    match self.until_changed(version).await {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let now = core.clock.now();
            let began = *outage.get_or_insert(now);
            let is_passing = trouble.kind() == ErrorKind::Unreachable;
            if !is_passing || now.since(began) >= defaults::OUTAGE_LIMIT {
                return Err(trouble);
            }
            core.clock.sleep_until(now.after(pause)).await;
            pause = (pause * 2).min(defaults::FAILED_LONGEST_PAUSE);
        }
    }

    /// Ends when the cell may be another than this, which was shown.
    async fn until_changed(&self, version: Version) -> Result<()> {
        let (core, (name, cells)) = (self.cell.core(), self.cell.checked()?);
        loop {
            let now = core.clock.now();
            let unchanged_for = self.shown.map_or(Duration::ZERO, |(_, since)| now.since(since));
            let look_at = now.after(cells.look_in(unchanged_for));
            if let Some(told) = core.until(look_at, cells.clone().watch(name.clone(), version)).await {
                return told.map_err(|error| error.about(name));
            }
            let look = cells.clone().has_changed(name.clone(), version);
            if core.answer(look, core.clock.now()).await.map_err(|error| error.about(name))? {
                return Ok(());
            }
        }
    }
}
