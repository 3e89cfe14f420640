//! The rule by which claims may hold beside each other, for engines that keep their own queue. It is pure.

use crate::engine::Mode;

/// The present holders of a lock, by mode. Use: walk the claims in queue order; count every holder and every
/// waiter that fits, and stop at the first waiter that does not. No claim overtakes another, so holders
/// always stand before waiters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Admission {
    alone: u32,
    readers: u32,
    permits: u32,
}

impl Admission {
    /// Counts a holder.
    pub(crate) fn count(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive | Mode::Write => self.alone += 1,
            Mode::Read => self.readers += 1,
            Mode::Permit { .. } => self.permits += 1,
        }
    }

    /// Whether no claim of any mode fits.
    pub(crate) fn is_full(&self) -> bool {
        self.alone > 0
    }

    /// Whether a claim of this mode may hold beside those counted.
    pub(crate) fn fits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive | Mode::Write => self.alone + self.readers + self.permits == 0,
            Mode::Read => self.alone + self.permits == 0,
            Mode::Permit { of } => self.alone + self.readers == 0 && self.permits < of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Mode; 4] = [Mode::Exclusive, Mode::Read, Mode::Write, Mode::Permit { of: 2 }];

    /// For every queue of five claims: those that are admitted together may hold together.
    #[test]
    fn no_two_holders_that_exclude_each_other_are_ever_admitted() {
        for queue in 0..4_u32.pow(5) {
            let modes: Vec<_> = (0..5).map(|place| MODES[(queue / 4_u32.pow(place) % 4) as usize]).collect();
            let mut admission = Admission::default();
            let admitted = |mode: &&Mode| {
                let fits = admission.fits(**mode);
                admission.count(**mode);
                fits
            };
            let held: Vec<_> = modes.iter().take_while(admitted).collect();
            assert!(!held.is_empty(), "the head of a free lock's queue always gets it");
            let alone = held.iter().filter(|mode| matches!(mode, Mode::Exclusive | Mode::Write)).count();
            let permits = held.iter().filter(|mode| matches!(mode, Mode::Permit { .. })).count();
            assert!(alone == 0 || held.len() == 1, "{held:?}");
            assert!(permits == 0 || (permits == held.len() && permits <= 2), "{held:?}");
        }
    }
}
