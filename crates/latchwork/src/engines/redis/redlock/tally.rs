//! The masters' votes on one claim, and the decision. Pure, so that it can be checked for every order of
//! replies.

/// The vote of one master on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ClaimVote {
    /// The master has the claim's key, with this token in its fence.
    Ours(u64),
    /// Another claim has the key.
    Busy,
    /// No vote: the master did not answer in time, is in quarantine, or failed.
    Silent,
}

/// The decision on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// More votes are needed.
    Open,
    /// A quorum has the key, with exactly this token.
    Granted(u64),
    /// A quorum has the key, with different tokens: all are to be raised to the greatest.
    Raise(u64),
    /// No quorum.
    Failed,
}

/// The votes so far.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    votes: Vec<Option<ClaimVote>>,
}

impl Tally {
    pub(super) fn of(masters: usize) -> Self {
        Self { votes: vec![None; masters] }
    }

    /// The number of masters that decide.
    pub(super) fn quorum(masters: usize) -> usize {
        masters / 2 + 1
    }

    pub(super) fn note(&mut self, master: usize, vote: ClaimVote) {
        self.votes[master] = Some(vote);
    }

    /// No more votes are expected.
    pub(super) fn close(&mut self) {
        self.votes.iter_mut().for_each(|vote| *vote = vote.or(Some(ClaimVote::Silent)));
    }

    /// The decision from the votes so far.
    ///
    /// A grant needs a quorum with *exactly* the same token, and no master with a greater one: masters that
    /// another claim raised in between do not count, or two claims could be granted one token.
    pub(super) fn decide(&self) -> Decision {
        let quorum = Self::quorum(self.votes.len());
        let tokens = || self.votes.iter().filter_map(|vote| vote.and_then(ClaimVote::token));
        let open = self.votes.iter().filter(|vote| vote.is_none()).count();
        let Some(greatest) = tokens().max() else {
            return if open < quorum { Decision::Failed } else { Decision::Open };
        };
        let (ours, exactly) = (tokens().count(), tokens().filter(|token| *token == greatest).count());
        match () {
            () if exactly >= quorum => Decision::Granted(greatest),
            () if ours + open < quorum => Decision::Failed,
            () if open > 0 => Decision::Open,
            () => Decision::Raise(greatest),
        }
    }

    /// The masters that have the claim's key.
    pub(super) fn ours(&self) -> impl Iterator<Item = usize> {
        (0..self.votes.len()).filter(|master| self.votes[*master].and_then(ClaimVote::token).is_some())
    }

    /// The number of masters that voted, for this claim or another.
    pub(super) fn answered(&self) -> usize {
        self.votes.iter().filter(|vote| matches!(vote, Some(ClaimVote::Ours(_) | ClaimVote::Busy))).count()
    }
}

impl ClaimVote {
    fn token(self) -> Option<u64> {
        match self {
            Self::Ours(token) => Some(token),
            Self::Busy | Self::Silent => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(votes: &[ClaimVote]) -> Decision {
        let mut tally = Tally::of(5);
        votes.iter().enumerate().for_each(|(master, vote)| tally.note(master, *vote));
        tally.decide()
    }

    #[test]
    fn a_quorum_with_one_token_is_enough_and_late_masters_are_not_waited_for() {
        use ClaimVote::{Busy, Ours, Silent};
        assert_eq!(decided(&[Ours(7), Ours(7)]), Decision::Open);
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(7)]), Decision::Granted(7));
        assert_eq!(decided(&[Silent, Ours(7), Busy, Ours(7), Ours(7)]), Decision::Granted(7));
    }

    #[test]
    fn different_tokens_are_raised_and_only_the_same_ones_count() {
        use ClaimVote::{Busy, Ours};
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(8)]), Decision::Open, "another may have 8, too");
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(8), Busy, Busy]), Decision::Raise(8));
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(7), Ours(8), Busy]), Decision::Raise(8));
    }

    #[test]
    fn without_a_quorum_it_fails_as_soon_as_that_is_known() {
        use ClaimVote::{Busy, Ours, Silent};
        assert_eq!(decided(&[Busy, Silent]), Decision::Open);
        assert_eq!(decided(&[Busy, Silent, Busy]), Decision::Failed);
        assert_eq!(decided(&[Ours(1), Ours(1), Busy, Busy, Silent]), Decision::Failed);
        let mut tally = Tally::of(4);
        (0..2).for_each(|master| tally.note(master, Ours(1)));
        assert_eq!(tally.decide(), Decision::Open, "half is no majority");
        tally.close();
        assert_eq!(tally.decide(), Decision::Failed);
    }
}
