//! Cells of one process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Memory, Verb};
use crate::engine::{CellState, Cells, Version, Written};
use crate::names::AsItIs;
use crate::{LockName, Result};

/// What was set, and who wants to know.
#[derive(Default)]
pub(super) struct Stored {
    states: HashMap<LockName, CellState, AsItIs>,
    /// One counter for all: no cell ever has a version again.
    last: u128,
    changed: Arc<Notify>,
}

impl Stored {
    fn version(&self, name: &LockName) -> Version {
        self.states.get(name).map_or(Version::ABSENT, |state| state.version)
    }

    fn write_if(&mut self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Written {
        if self.version(name) != seen {
            return Written::Changed;
        }
        let version = match value {
            Some(value) => {
                self.last += 1;
                let version = Version::new(self.last);
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
    /// Every change is told.
    fn look_in(&self, _: Duration) -> Duration {
        Duration::from_secs(60 * 60)
    }

    async fn read(&self, name: &LockName) -> Result<CellState> {
        self.play(Verb::Cell, |state, _| state.cells.states.get(name).cloned().unwrap_or(CellState::ABSENT))
            .await
    }

    async fn has_changed(&self, name: &LockName, seen: Version) -> Result<bool> {
        self.play(Verb::Cell, |state, _| state.cells.version(name) != seen).await
    }

    async fn write_if(&self, name: &LockName, seen: Version, value: Option<&[u8]>) -> Result<Written> {
        self.play(Verb::Cell, |state, _| state.cells.write_if(name, seen, value)).await
    }

    async fn watch(&self, name: &LockName, seen: Version) -> Result<()> {
        let changed = self.state().cells.changed.clone();
        loop {
            let mut next = std::pin::pin!(changed.notified());
            // Before the look: what changes after it is told.
            next.as_mut().enable();
            if self.state().cells.version(name) != seen {
                return Ok(());
            }
            next.await;
        }
    }
}
