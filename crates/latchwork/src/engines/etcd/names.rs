//! Names of keys that are free to be used again.
//!
//! A key that was deleted stays in etcd's index until the cluster's history is compacted, and every look at the queue
//! passes it. With a new name for every claim, a lock that was taken a million times would be slow to take.
//!
//! A name is used again only if everything that was asked under it was answered. A request that nobody waits for any
//! longer may still arrive, and would touch the key of the next claim: such a name stays with its claim for ever.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use super::keys;
use crate::engine::ClaimId;
use crate::locked::locked;

/// So many are kept. With more, most are of locks that nobody wants any more.
const MOST_SPARE: usize = 4_096;
/// So many claims are remembered. The core comes back to a claim within a few of its leases.
const MOST_FORMER: usize = 4_096;

#[derive(Default)]
pub(super) struct Names {
    spare: Mutex<Spare>,
    /// Released claims of which a request may be under way, and their keys.
    former: Mutex<VecDeque<(ClaimId, Vec<u8>)>>,
}

#[derive(Default)]
struct Spare {
    /// By what all keys of a lock, lease and mode begin with.
    keys: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    count: usize,
}

impl Names {
    /// A key that may be used instead of this new one, or else this one.
    pub(super) fn choose(&self, new: Vec<u8>) -> Vec<u8> {
        let mut spare = locked(&self.spare);
        let stem = keys::stem(&new);
        let Some(known) = spare.keys.get_mut(stem) else { return new };
        let key = known.pop();
        if known.is_empty() {
            spare.keys.remove(stem);
        }
        spare.count -= usize::from(key.is_some());
        key.unwrap_or(new)
    }

    /// Nobody uses it, and nothing that was asked under it is unanswered.
    pub(super) fn give_back(&self, key: Vec<u8>) {
        if keys::names_its_claim(&key) {
            return;
        }
        let mut spare = locked(&self.spare);
        if spare.count >= MOST_SPARE {
            *spare = Spare::default();
        }
        spare.count += 1;
        spare.keys.entry(keys::stem(&key).to_vec()).or_default().push(key);
    }

    /// The claim is over, but a request of it may still arrive.
    pub(super) fn remember(&self, claim: ClaimId, key: Vec<u8>) {
        let mut former = locked(&self.former);
        former.truncate(MOST_FORMER - 1);
        former.push_front((claim, key));
    }

    /// Where a claim stood that was released, if something may still appear there.
    pub(super) fn former(&self, claim: ClaimId) -> Option<Vec<u8>> {
        locked(&self.former).iter().find(|(id, _)| *id == claim).map(|(_, key)| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lock: &str, digit: char) -> Vec<u8> {
        format!("{lock}/7f-x{}", digit.to_string().repeat(32)).into_bytes()
    }

    #[test]
    fn a_name_is_used_again_for_the_same_lock_only_and_by_one_at_a_time() {
        let names = Names::default();
        names.give_back(key("a", '1'));
        assert_eq!(names.choose(key("b", '2')), key("b", '2'));
        assert_eq!(names.choose(key("a", '3')), key("a", '1'));
        assert_eq!(names.choose(key("a", '4')), key("a", '4'), "the only one is in use");
        assert_eq!(locked(&names.spare).count, 0);
    }

    #[test]
    fn names_of_locks_that_nobody_wants_any_more_do_not_pile_up() {
        let names = Names::default();
        (0..3 * MOST_SPARE).for_each(|lock| names.give_back(key(&lock.to_string(), '1')));
        let spare = locked(&names.spare);
        assert!(spare.count <= MOST_SPARE && spare.keys.len() == spare.count);
    }

    #[test]
    fn a_name_that_was_left_in_doubt_is_found_by_its_claim() {
        let names = Names::default();
        let [first, other] = [1, 2].map(|byte| ClaimId::from_bytes([byte; 16]));
        names.remember(first, key("a", '1'));
        assert_eq!(names.former(first), Some(key("a", '1')));
        assert_eq!(names.former(other), None);
        (0..MOST_FORMER).for_each(|_| names.remember(other, key("b", '1')));
        assert_eq!((names.former(first), locked(&names.former).len()), (None, MOST_FORMER));
    }
}
