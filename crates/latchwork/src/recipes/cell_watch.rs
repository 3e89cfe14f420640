//! The changes of a cell.

use super::Cell;
use crate::core::defaults;
use crate::engine::{CellState, Version};
use crate::{ErrorKind, Result};

/// Follows the changes of a cell. Made by [`Cell::watch`].
#[derive(Debug)]
pub struct CellWatch {
    cell: Cell,
    /// What was shown last; nothing was yet.
    shown: Option<Version>,
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
    /// The latest value always arrives. Values that were replaced meanwhile are skipped. Told by the server where it can,
    /// else within 25 ms (sqlite).
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
            let read = self.cell.get().await;
            let now = core.clock.now();
            let trouble = match read {
                Ok(state) => {
                    let version = state.as_ref().map_or(Version::ABSENT, |state| state.version);
                    if self.shown != Some(version) {
                        self.shown = Some(version);
                        return Ok(state);
                    }
                    outage = None;
                    let (name, cells) = self.cell.checked()?;
                    let until = now.after(cells.look_every());
                    match core.until(until, cells.watch(name.clone(), version)).await {
                        Some(Err(error)) => error,
                        _ => continue,
                    }
                }
                Err(error) => error,
            };
            let began = *outage.get_or_insert(now);
            let is_passing = trouble.kind() == ErrorKind::Unreachable;
            if !is_passing || now.since(began) >= defaults::OUTAGE_LIMIT {
                return Err(trouble);
            }
            core.clock.sleep_until(core.clock.now().after(pause)).await;
            pause = (pause * 2).min(defaults::FAILED_LONGEST_PAUSE);
        }
    }
}
