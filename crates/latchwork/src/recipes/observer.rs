//! To know who leads.

use super::{CellWatch, Leader};
use crate::Result;

/// Follows who leads. Made by [`Election::observe`](crate::Election::observe).
#[derive(Debug)]
pub struct Observer {
    states: CellWatch,
    term: Option<u64>,
}

impl Observer {
    pub(super) fn new(states: CellWatch) -> Self {
        Self { states, term: None }
    }

    /// The latest leader that has said so: the first time at once, if there ever was one (on etcd, if one leads now), and then
    /// each time when there is another.
    ///
    /// # Guarantees
    /// Terms only rise. A leader that still leads is not missed; one that was replaced meanwhile may be. That a leader is gone
    /// is told by the next one: ask [`Election::leader`](crate::Election::leader).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the next call goes on.
    ///
    /// # Errors
    /// As [`CellWatch::next`], and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the cell was set by something else.
    ///
    /// # Examples
    /// As [`Election::observe`](crate::Election::observe).
    pub async fn next(&mut self) -> Result<Leader> {
        loop {
            let state = self.states.next().await?;
            let Some(leader) = Leader::of(self.states.cell(), state)? else { continue };
            if Some(leader.term) > self.term {
                self.term = Some(leader.term);
                return Ok(leader);
            }
        }
    }
}
