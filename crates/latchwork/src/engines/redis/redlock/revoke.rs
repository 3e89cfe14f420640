//! Revocations: an operator takes a lock away on a majority of masters.

use super::master::Master;
use super::replies::Replies;
use super::round::Round;
use super::{MAJORITY_LIMIT, Redlock};
use crate::engine::{ClaimState, Filter, LockState, Revoke, Revoked};
use crate::{Effect, ErrorKind, Result};

impl Redlock {
    pub(super) async fn revoke_on_majority(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        // A majority says who holds and whether that is a claim of ours: a master that was healed may not
        // know.
        let found = self.inspect_majority(&Filter::Name(lock.name.clone())).await?;
        let is_named = |now: &&ClaimState| lock.holders.iter().any(|named| named.id == now.id);
        let Some(holder) = found.iter().flat_map(|found| &found.holders).find(is_named) else {
            return Ok(Revoked::NotHeld);
        };
        how.check(holder).map_err(|error| error.about(&lock.name))?;
        let is_ours = holder.foreign.is_none();
        let revoke = |master: Master| {
            let lock = lock.clone();
            async move { master.engine().revoke_holders(&lock, how, is_ours).await }
        };
        let mut round = Round::begin(self.topology().all(), self.deadline(MAJORITY_LIMIT), revoke);
        let (mut done, mut answered, mut replies) = (0, 0, Replies::default());
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(revoked) => {
                    answered += 1;
                    done += usize::from(revoked == Revoked::Done);
                }
                // The key is another program's by now.
                Err(error) if error.kind() == ErrorKind::Foreign => answered += 1,
                Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
                Err(error) => replies.failed(&error),
            }
        }
        match (answered >= self.topology().quorum(), done) {
            (false, _) => {
                Err(replies.no_majority(answered, self.topology().len()).with_effect(Effect::Unknown))
            }
            (true, 0) => Ok(Revoked::NotHeld),
            (true, _) => Ok(Revoked::Done),
        }
    }
}
