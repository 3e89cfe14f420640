//! What the masters said to one claim, and what follows from it. Pure, so that it can be tried with every order of answers.

/// What one master said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Said {
    /// The key is ours there, and this is the token that stands beside it.
    Ours(u64),
    /// It is another's.
    Busy,
    /// Nothing that can be counted: it did not answer in time, it is not asked because it may have forgotten, it failed.
    Silent,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Too early to say.
    Open,
    /// A quorum holds the key and has exactly this token.
    Granted(u64),
    /// A quorum holds the key, with different tokens: all are to be raised to the greatest.
    Raise(u64),
    /// No quorum.
    Failed,
}

/// The answers so far.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    said: Vec<Option<Said>>,
}

impl Tally {
    pub(super) fn of(masters: usize) -> Self {
        Self { said: vec![None; masters] }
    }

    /// How many masters decide.
    pub(super) fn quorum(masters: usize) -> usize {
        masters / 2 + 1
    }

    pub(super) fn note(&mut self, master: usize, said: Said) {
        self.said[master] = Some(said);
    }

    /// Nobody else is waited for.
    pub(super) fn close(&mut self) {
        self.said.iter_mut().for_each(|said| *said = said.or(Some(Said::Silent)));
    }

    /// What follows from what was said so far.
    ///
    /// A grant needs a quorum that says *exactly* the same token, and none that says more: masters that were raised by
    /// another in between do not count, or two claims could get one token.
    pub(super) fn decide(&self) -> Decision {
        let quorum = Self::quorum(self.said.len());
        let tokens = || self.said.iter().filter_map(|said| said.and_then(Said::token));
        let open = self.said.iter().filter(|said| said.is_none()).count();
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

    /// Who holds the key for us.
    pub(super) fn ours(&self) -> impl Iterator<Item = usize> {
        (0..self.said.len()).filter(|master| self.said[*master].and_then(Said::token).is_some())
    }

    /// How many said something, be it ours or another's.
    pub(super) fn answered(&self) -> usize {
        self.said.iter().filter(|said| matches!(said, Some(Said::Ours(_) | Said::Busy))).count()
    }
}

impl Said {
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

    fn decided(said: &[Said]) -> Decision {
        let mut tally = Tally::of(5);
        said.iter().enumerate().for_each(|(master, said)| tally.note(master, *said));
        tally.decide()
    }

    #[test]
    fn a_quorum_with_one_token_is_enough_and_late_masters_are_not_waited_for() {
        use Said::{Busy, Ours, Silent};
        assert_eq!(decided(&[Ours(7), Ours(7)]), Decision::Open);
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(7)]), Decision::Granted(7));
        assert_eq!(decided(&[Silent, Ours(7), Busy, Ours(7), Ours(7)]), Decision::Granted(7));
    }

    #[test]
    fn different_tokens_are_raised_and_only_the_same_ones_count() {
        use Said::{Busy, Ours};
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(8)]), Decision::Open, "another may have 8, too");
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(8), Busy, Busy]), Decision::Raise(8));
        assert_eq!(decided(&[Ours(7), Ours(7), Ours(7), Ours(8), Busy]), Decision::Raise(8));
    }

    #[test]
    fn without_a_quorum_it_fails_as_soon_as_that_is_known() {
        use Said::{Busy, Ours, Silent};
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
