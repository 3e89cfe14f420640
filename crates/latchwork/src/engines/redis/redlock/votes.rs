//! What the masters said to one renewal, and what follows from it. Pure, like [`super::tally`].

use super::tally::Tally;

/// The answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Votes {
    pub(super) kept: usize,
    /// Who lacks the key, by number.
    pub(super) lacking: Vec<usize>,
    pub(super) revoked: usize,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A majority still had the key. Who lacks it is healed, and counts from the next renewal on.
    Kept,
    /// So many lack it that there is no majority left.
    Removed,
    /// The same, and somebody wants it so.
    Revoked,
    /// Too few have answered.
    Unknown,
}

impl Votes {
    pub(super) fn judge(&self, masters: usize) -> Outcome {
        let quorum = Tally::quorum(masters);
        let lost = self.lacking.len() + self.revoked;
        match () {
            () if self.kept >= quorum => Outcome::Kept,
            () if lost <= masters - quorum => Outcome::Unknown,
            () if self.revoked > 0 => Outcome::Revoked,
            () => Outcome::Removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kept: usize, lacking: usize, revoked: usize) -> Outcome {
        Votes { kept, lacking: (0..lacking).collect(), revoked }.judge(5)
    }

    #[test]
    fn a_majority_decides() {
        assert_eq!(judged(3, 2, 0), Outcome::Kept);
        assert_eq!(judged(2, 2, 0), Outcome::Unknown);
        assert_eq!(judged(2, 3, 0), Outcome::Removed);
        assert_eq!(judged(2, 2, 1), Outcome::Revoked);
        assert_eq!(judged(3, 0, 2), Outcome::Kept, "a minority cannot revoke");
    }
}
