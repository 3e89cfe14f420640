//! The states of a cell.

use std::time::Duration;

use super::Cell;
use crate::clock::Moment;
use crate::core::defaults;
use crate::engine::{CellState, Version};
use crate::{ErrorKind, Result};

/// Follows the states of a cell, set or not. It never ends by itself. Made by [`Cell::watch`].
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

    /// The state of the cell: the first call returns at once, every later call when the state is another. A cell
    /// that is not set, or that was deleted, has a state as well: see [`CellState::is_set`].
    ///
    /// # Guarantees
    /// The latest state always arrives. States that were replaced meanwhile are skipped.
    /// [`Guarantees::watchers_told`](crate::Guarantees::watchers_told) says how soon.
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
    /// let mut states = client.cell("result").watch();
    /// let worker = client.cell("result");
    /// tokio::spawn(async move { worker.set("42").await });
    /// let result = loop {
    ///     let now = states.next().await?; // the first state comes at once: not set yet
    ///     if let Some(text) = now.text()? {
    ///         break text.to_owned();
    ///     }
    /// };
    /// assert_eq!(result, "42");
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Result<CellState> {
        let core = self.cell.core().clone();
        let (mut outage, mut pause) = (None, defaults::FAILED_FIRST_PAUSE);
        loop {
            let wire_error = match self.cell.get().await {
                Ok(state) => {
                    let (version, now) = (state.version, core.clock.now());
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
            let is_passing = wire_error.kind() == ErrorKind::Unreachable;
            if !is_passing || now.since(began) >= defaults::OUTAGE_LIMIT {
                return Err(wire_error);
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
            let look_at = now.after(cells.poll_interval(unchanged_for));
            if let Some(told) = core.until(look_at, cells.clone().watch(name.clone(), version)).await {
                return told.map_err(|error| self.cell.about(error));
            }
            let look = cells.clone().has_changed(name.clone(), version);
            if core.answer(look, core.clock.now()).await.map_err(|error| self.cell.about(error))? {
                return Ok(());
            }
        }
    }
}
