//! The locks that a majority of masters has.

use std::collections::BTreeMap;

use super::master::Master;
use super::replies::Replies;
use super::round::Round;
use super::{MAJORITY_LIMIT, Redlock};
use crate::engine::{Filter, LockState};
use crate::{LockName, Result};

impl Redlock {
    /// The locks that a majority has, with the holders that a majority names.
    pub(super) async fn inspect_majority(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let inspect = |master: Master| {
            let filter = filter.clone();
            async move { master.engine().inspect_locks(&filter).await }
        };
        let mut round = Round::begin(self.topology().all(), self.deadline(MAJORITY_LIMIT), inspect);
        let (mut answered, mut replies, mut found) =
            (0, Replies::default(), BTreeMap::<LockName, Vec<_>>::new());
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(locks) => {
                    answered += 1;
                    locks
                        .into_iter()
                        .for_each(|lock| found.entry(lock.name).or_default().extend(lock.holders));
                }
                Err(error) => replies.failed(&error),
            }
        }
        let quorum = self.topology().quorum();
        if answered < quorum {
            return Err(replies.no_majority(answered, self.topology().len()));
        }
        let with_majority = |(name, holders): (LockName, Vec<_>)| {
            let holders = Replies { holders, ..Replies::default() };
            let mut state = LockState::new(name);
            state.holders.extend(holders.named_by(quorum));
            (!state.holders.is_empty()).then_some(state)
        };
        Ok(found.into_iter().filter_map(with_majority).collect())
    }
}
