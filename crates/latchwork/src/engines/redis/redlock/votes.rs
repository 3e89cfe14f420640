//! The masters' votes on one renewal, and the result. Pure, like [`super::tally`].

use super::tally::Tally;

/// The votes on a renewal.
#[derive(Clone, Debug, Default)]
pub(super) struct Votes {
    pub(super) kept: usize,
    /// The numbers of the masters that lack the key.
    pub(super) lacking: Vec<usize>,
    pub(super) revoked: usize,
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteResult {
    /// A majority still had the key. Masters that lack it are healed, and count from the next renewal on.
    Kept,
    /// So many masters lack the key that no majority is left.
    Removed,
    /// As `Removed`, and a master reports a revocation.
    Revoked,
    /// Too few masters have answered.
    Unknown,
}

impl Votes {
    pub(super) fn judge(&self, masters: usize) -> VoteResult {
        let quorum = Tally::quorum(masters);
        let lost = self.lacking.len() + self.revoked;
        match () {
            () if self.kept >= quorum => VoteResult::Kept,
            () if lost <= masters - quorum => VoteResult::Unknown,
            () if self.revoked > 0 => VoteResult::Revoked,
            () => VoteResult::Removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kept: usize, lacking: usize, revoked: usize) -> VoteResult {
        Votes { kept, lacking: (0..lacking).collect(), revoked }.judge(5)
    }

    #[test]
    fn a_majority_decides() {
        assert_eq!(judged(3, 2, 0), VoteResult::Kept);
        assert_eq!(judged(2, 2, 0), VoteResult::Unknown);
        assert_eq!(judged(2, 3, 0), VoteResult::Removed);
        assert_eq!(judged(2, 2, 1), VoteResult::Revoked);
        assert_eq!(judged(3, 0, 2), VoteResult::Kept, "a minority cannot revoke");
    }
}
