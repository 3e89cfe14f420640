//! Names of keys that are free to be used again.
//!
//! A key that was deleted stays in etcd's index until the cluster's history is compacted, and every look at
//! the queue passes it. With a new name for every claim, a lock that was taken a million times would be slow
//! to take.
//!
//! A name is used again only if every request under it was answered. A request that was given up may still
//! arrive, and would delete the key of the next claim.

use std::collections::HashMap;
use std::sync::Mutex;

use super::keys;
use crate::poison::lock_ignoring_poison;

/// So many are kept. With more, most are of locks that nobody wants any more.
const MOST_SPARE: usize = 4_096;

#[derive(Default)]
pub(super) struct Names {
    spare: Mutex<Spare>,
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
        let mut spare = lock_ignoring_poison(&self.spare);
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
        let mut spare = lock_ignoring_poison(&self.spare);
        if spare.count >= MOST_SPARE {
            *spare = Spare::default();
        }
        spare.count += 1;
        spare.keys.entry(keys::stem(&key).to_vec()).or_default().push(key);
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
        assert_eq!(lock_ignoring_poison(&names.spare).count, 0);
    }

    #[test]
    fn names_of_locks_that_nobody_wants_any_more_do_not_pile_up() {
        let names = Names::default();
        (0..3 * MOST_SPARE).for_each(|lock| names.give_back(key(&lock.to_string(), '1')));
        let spare = lock_ignoring_poison(&names.spare);
        assert!(spare.count <= MOST_SPARE && spare.keys.len() == spare.count);
    }
}
