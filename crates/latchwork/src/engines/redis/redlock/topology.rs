//! The masters of a URL, and which of them may grant locks.

use std::time::Duration;

use super::master::Master;
use super::tally::Tally;
use crate::engine::Verdict;
use crate::engines::quarantine::quarantined_because;
use crate::engines::redis::options::Options as MasterOptions;

/// The masters, numbered in the order of the URL.
pub(super) struct Topology {
    masters: Vec<Master>,
}

impl Topology {
    pub(super) fn new(masters: Vec<MasterOptions>) -> Self {
        Self { masters: masters.into_iter().map(Master::new).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.masters.len()
    }

    /// The number of masters that decide.
    pub(super) fn quorum(&self) -> usize {
        Tally::quorum(self.masters.len())
    }

    /// All masters, with their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, Master)> {
        self.masters.iter().cloned().enumerate()
    }

    /// The masters with these numbers.
    pub(super) fn numbered(
        &self,
        numbers: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = (usize, Master)> {
        numbers.map(|number| (number, self.masters[number].clone()))
    }

    /// The channel in the members of this client's claims. Masters publish nothing; any channel of this
    /// client will do.
    pub(super) fn channel_id(&self) -> &str {
        self.masters[0].session().channel_id()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<_> =
            self.masters.iter().flat_map(|master| master.session().warnings()).collect();
        warnings.dedup();
        if self.masters.len().is_multiple_of(2) {
            let masters = self.masters.len();
            let fewer = masters - 1;
            warnings.push(format!(
                "{masters} masters survive the loss of no more than {fewer} do, and votes can be split evenly; use an odd number"
            ));
        }
        warnings
    }

    /// The numbers of the masters that are not in quarantine. If they are too few, how long that lasts.
    pub(super) fn out_of_quarantine(&self) -> Result<Vec<usize>, Duration> {
        let left = |master: &Master| master.session().quarantine().unwrap_or_default();
        let mut left: Vec<_> = self.masters.iter().map(left).collect();
        let available: Vec<_> = (0..left.len()).filter(|number| left[*number].is_zero()).collect();
        if available.len() >= self.quorum() {
            return Ok(available);
        }
        left.sort();
        Err(left[self.quorum() - 1])
    }
}

/// The answer while too many masters may have forgotten locks.
pub(super) fn quarantined(left: Duration) -> Verdict {
    let why = "they started less than max-ttl ago and may have forgotten who holds";
    quarantined_because("a majority", why, left)
}
