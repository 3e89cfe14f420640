//! Keys that can be used again for the next claim.
//!
//! A key that was deleted stays in etcd's index until the cluster's history is compacted, and every read of
//! the queue passes it. With a new key for every claim, a lock that was taken a million times would be slow
//! to take.
//!
//! A key is used again only if every request for it was answered. A request that was given up may still
//! arrive, and would delete the key of the next claim.

use std::collections::HashMap;
use std::sync::Mutex;

use super::keys;
use crate::poison::lock_ignoring_poison;

/// The number of keys that are kept. With more, most would belong to locks that are no longer used.
const MAX_KEYS: usize = 4_096;

/// The keys of one client that are free.
#[derive(Default)]
pub(super) struct KeyPool {
    free: Mutex<FreeKeys>,
}

#[derive(Default)]
struct FreeKeys {
    /// By the common prefix of all keys of a lock, lease and mode.
    by_stem: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    count: usize,
}

impl KeyPool {
    /// A free key for the same lock, lease and mode as `new`. Without one, `new` itself.
    pub(super) fn take_or(&self, new: Vec<u8>) -> Vec<u8> {
        let mut free = lock_ignoring_poison(&self.free);
        let stem = keys::stem(&new);
        let Some(same) = free.by_stem.get_mut(stem) else { return new };
        let key = same.pop();
        if same.is_empty() {
            free.by_stem.remove(stem);
        }
        free.count -= usize::from(key.is_some());
        key.unwrap_or(new)
    }

    /// Takes back a key that no claim uses and that has no unanswered request.
    pub(super) fn put_back(&self, key: Vec<u8>) {
        if keys::has_claim_id(&key) {
            return;
        }
        let mut free = lock_ignoring_poison(&self.free);
        if free.count >= MAX_KEYS {
            *free = FreeKeys::default();
        }
        free.count += 1;
        free.by_stem.entry(keys::stem(&key).to_vec()).or_default().push(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lock: &str, digit: char) -> Vec<u8> {
        format!("{lock}/7f-x{}", digit.to_string().repeat(32)).into_bytes()
    }

    #[test]
    fn a_key_is_used_again_for_the_same_lock_only_and_by_one_claim_at_a_time() {
        let pool = KeyPool::default();
        pool.put_back(key("a", '1'));
        assert_eq!(pool.take_or(key("b", '2')), key("b", '2'));
        assert_eq!(pool.take_or(key("a", '3')), key("a", '1'));
        assert_eq!(pool.take_or(key("a", '4')), key("a", '4'), "the only one is in use");
        assert_eq!(lock_ignoring_poison(&pool.free).count, 0);
    }

    #[test]
    fn keys_of_locks_that_are_no_longer_used_do_not_pile_up() {
        let pool = KeyPool::default();
        (0..3 * MAX_KEYS).for_each(|lock| pool.put_back(key(&lock.to_string(), '1')));
        let free = lock_ignoring_poison(&pool.free);
        assert!(free.count <= MAX_KEYS && free.by_stem.len() == free.count);
    }
}
