//! Cells of one process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Memory, Verb};
use crate::engine::{CellState, Cells, Version, Written};
use crate::names::BuildIdentityHasher;
use crate::{LockName, Result};

/// The cells that are set.
#[derive(Default)]
pub(super) struct CellTable {
    states: HashMap<LockName, CellState, BuildIdentityHasher>,
    /// One counter for all cells, so that a deleted cell never has an earlier version again.
    last_version: u128,
    changed: Arc<Notify>,
}

impl CellTable {
    fn version(&self, name: &LockName) -> Version {
        self.states.get(name).map_or(Version::ABSENT, |state| state.version)
    }

    fn write_if(&mut self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Written {
        if self.version(name) != seen {
            return Written::Changed;
        }
        let version = match value {
            Some(value) => {
                self.last_version += 1;
                let version = Version::new(self.last_version);
                self.states.insert(name.clone(), CellState::new(version, value.to_vec()));
                version
            }
            None => {
                self.states.remove(name);
                Version::ABSENT
            }
        };
        self.changed.notify_waiters();
        Written::Done(version)
    }
}

impl Cells for Memory {
    /// `watch` reports every change.
    fn poll_interval(&self, _: Duration) -> Duration {
        Duration::from_secs(60 * 60)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        self.with_faults(Verb::Cell, |shared, _| {
            shared.cells.states.get(name).cloned().unwrap_or(CellState::ABSENT)
        })
        .await
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        self.with_faults(Verb::Cell, |shared, _| shared.cells.version(name) != seen).await
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        self.with_faults(Verb::Cell, |shared, _| shared.cells.write_if(name, seen, value)).await
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let changed = self.shared().cells.changed.clone();
        loop {
            let mut next = std::pin::pin!(changed.notified());
            // Enabled before the read, so that a later change is not missed.
            next.as_mut().enable();
            if self.shared().cells.version(name) != seen {
                return Ok(());
            }
            next.await;
        }
    }
}
