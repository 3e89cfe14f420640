//! The states of a cell.

use std::time::Duration;

use super::Cell;
use crate::clock::Moment;
use crate::core::defaults;
use crate::engine::{CellState, Version};
use crate::{ErrorKind, Result};

/// Follows the states of a cell. It has no end. Created by [`Cell::watch`].
#[derive(Debug)]
pub struct CellWatch {
    cell: Cell,
    /// The version that was returned last, and when.
    last: Option<(Version, Moment)>,
}

impl CellWatch {
    pub(super) fn new(cell: Cell) -> Self {
        Self { cell, last: None }
    }

    pub(super) fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The state of the cell. The first call returns at once, every later call after a change. A cell that is
    /// not set, or that was deleted, has a state as well: see [`CellState::is_set`].
    ///
    /// # Guarantees
    /// The latest state is always returned. States that were replaced in between may be skipped.
    /// [`Guarantees::watchers_told`](crate::Guarantees::watchers_told) gives the delay.
    ///
    /// # Cancel safety
    /// May be dropped at any time. The next call continues.
    ///
    /// # Errors
    /// The errors of [`Client::cell`](crate::Client::cell) and of the engine. During an outage it retries for
    /// 30 s. After an error it may be called again, and misses no change.
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
            let error = match self.cell.get().await {
                Ok(state) => {
                    let (version, now) = (state.version, core.clock.now());
                    if self.last.is_none_or(|(last, _)| last != version) {
                        self.last = Some((version, now));
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
            let is_outage = error.kind() == ErrorKind::Unreachable;
            if !is_outage || now.since(began) >= defaults::OUTAGE_LIMIT {
                return Err(error);
            }
            core.clock.sleep_until(now.after(pause)).await;
            pause = (pause * 2).min(defaults::FAILED_LONGEST_PAUSE);
        }
    }

    /// Waits until the cell may have another version than this one, which was returned last.
    async fn until_changed(&self, version: Version) -> Result<()> {
        let (core, (name, cells)) = (self.cell.core(), self.cell.checked()?);
        loop {
            let now = core.clock.now();
            let unchanged_for = self.last.map_or(Duration::ZERO, |(_, since)| now.since(since));
            let poll_at = now.after(cells.poll_interval(unchanged_for));
            if let Some(watched) = core.until(poll_at, cells.clone().watch(name.clone(), version)).await {
                return watched.map_err(|error| self.cell.about(error));
            }
            let poll = cells.clone().has_changed(name.clone(), version);
            if core.answer(poll, core.clock.now()).await.map_err(|error| self.cell.about(error))? {
                return Ok(());
            }
        }
    }
}
