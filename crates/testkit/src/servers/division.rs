//! The members of a cluster that are cut off from the others.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The members that are cut off; initially none.
#[derive(Default)]
pub(super) struct Division {
    cut_off: Mutex<HashSet<usize>>,
}

impl Division {
    /// Cuts one of `size` members off, or heals it. `hold` is called for every link from and to the member
    /// and says whether its traffic is held back: a healed member stays apart from members that are still cut
    /// off.
    pub(super) fn change(
        &self,
        index: usize,
        is_cut_off: bool,
        size: usize,
        hold: impl Fn(usize, usize, bool),
    ) {
        let mut cut_off = self.members();
        if is_cut_off {
            cut_off.insert(index);
        } else {
            cut_off.remove(&index);
        }
        for other in (0..size).filter(|other| *other != index) {
            let is_held = is_cut_off || cut_off.contains(&other);
            hold(index, other, is_held);
            hold(other, index, is_held);
        }
    }

    pub(super) fn is_cut_off(&self, index: usize) -> bool {
        self.members().contains(&index)
    }

    fn members(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
