//! Follows the leaders of an election.

use super::{CellWatch, Leader};
use crate::Result;

/// Follows the leaders of an election. Created by [`Election::observe`](crate::Election::observe).
#[derive(Debug)]
pub struct Observer {
    states: CellWatch,
    term: Option<u64>,
}

impl Observer {
    pub(super) fn new(states: CellWatch) -> Self {
        Self { states, term: None }
    }

    /// The latest leader that has published its value. The first call returns at once if there ever was one
    /// (on etcd, if one leads now), and every later call when there is another.
    ///
    /// # Guarantees
    /// Terms only rise. The present leader is not missed; one that was replaced meanwhile may be. The end of
    /// a leadership is reported only by the next leader: see [`Election::leader`](crate::Election::leader).
    ///
    /// # Cancel safety
    /// May be dropped at any time. The next call continues.
    ///
    /// # Errors
    /// As [`CellWatch::next`], and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if another program set
    /// the cell.
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
