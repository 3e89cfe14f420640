//! Claims without a listing: locks that no other client has wanted since this client held them last.
//!
//! The server numbers the children of a lock's own node one by one. Say a client held with number k, has
//! released that, and gets number k + 1. Then no other claim came in between, and no claim was before k: the
//! client holds the lock. This is true while the lock's own node is the same, because a new node counts from
//! zero. Therefore that node is watched. The server sends an event of the node before the reply to any later
//! request, so a watch that is active when the reply arrives is proof.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::wire::Watcher;
use crate::engine::Mode;
use crate::poison::lock_ignoring_poison;

/// The number of locks that are remembered. Watched locks are never forgotten, or they would be watched
/// twice.
const MAX_LOCKS: usize = 1_024;

/// The histories of locks, by the paths of their own nodes.
#[derive(Default)]
pub(super) struct FastPath {
    locks: Mutex<HashMap<String, LockHistory>>,
}

#[derive(Default)]
struct LockHistory {
    watch: Option<ParentWatch>,
    /// The number that was held and released last, below the very node that is watched.
    last: Option<i32>,
}

/// A watch of a lock's own node. It is active until the server reports any event of that node, or the
/// connection breaks.
#[derive(Clone, Debug)]
pub(super) struct ParentWatch(Arc<AtomicBool>);

/// How a claim is to be made.
pub(super) enum ClaimPlan {
    /// The children are listed. The watch, if there is one, was active before.
    List(Option<ParentWatch>),
    /// The children are listed, and the lock's own node is watched from then on.
    ListAndWatch(ParentWatch),
    /// The children are not listed: with this number and an active watch, the lock has no other contender.
    ExpectAlone(i32, ParentWatch),
}

impl ParentWatch {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn is_active(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(super) fn watcher(&self) -> Watcher {
        let watch = self.clone();
        Box::new(move |_| watch.end())
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl LockHistory {
    fn active_watch(&self) -> Option<&ParentWatch> {
        self.watch.as_ref().filter(|watch| watch.is_active())
    }
}

impl FastPath {
    /// How to make a claim to the lock at `path`. A lock is watched from its second use on.
    pub(super) fn plan(&self, path: &str, mode: Mode) -> ClaimPlan {
        let locks = lock_ignoring_poison(&self.locks);
        let Some(history) = locks.get(path) else { return ClaimPlan::List(None) };
        match (history.active_watch(), history.last) {
            // Readers and permits hold beside others, so a held number says nothing about earlier contenders.
            (watch, _) if !matches!(mode, Mode::Exclusive | Mode::Write) => ClaimPlan::List(watch.cloned()),
            (None, _) => ClaimPlan::ListAndWatch(ParentWatch::new()),
            (Some(watch), None) => ClaimPlan::List(Some(watch.clone())),
            (Some(watch), Some(last)) => ClaimPlan::ExpectAlone(last.wrapping_add(1), watch.clone()),
        }
    }

    /// The server watches the lock's own node.
    pub(super) fn watched(&self, path: &str, watch: &ParentWatch) {
        if let Some(history) = lock_ignoring_poison(&self.locks).get_mut(path) {
            *history = LockHistory { watch: Some(watch.clone()), last: None };
        }
    }

    /// Another client wants the lock, too.
    pub(super) fn contended(&self, path: &str) {
        lock_ignoring_poison(&self.locks).entry(path.to_owned()).and_modify(|history| history.last = None);
    }

    /// The server has confirmed the release of a claim that held alone. `watch` was active when the claim was
    /// made.
    pub(super) fn released(&self, path: &str, number: i32, watch: Option<&ParentWatch>) {
        let mut locks = lock_ignoring_poison(&self.locks);
        if !locks.contains_key(path) && locks.len() >= MAX_LOCKS {
            locks.retain(|_, history| history.active_watch().is_some());
            if locks.len() >= MAX_LOCKS {
                return;
            }
        }
        let history = locks.entry(path.to_owned()).or_default();
        // Under another watch, the number may be that of an earlier node of the lock.
        let is_same = history.active_watch().zip(watch).is_some_and(|(one, other)| one.is(other));
        history.last = is_same.then_some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock that was held twice, the second time under a watch.
    fn held_twice() -> (FastPath, ParentWatch) {
        let fast_path = FastPath::default();
        assert!(matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::List(None)));
        fast_path.released("/a", 6, None);
        let ClaimPlan::ListAndWatch(watch) = fast_path.plan("/a", Mode::Exclusive) else {
            panic!("the lock is used again")
        };
        fast_path.watched("/a", &watch);
        assert!(
            matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::List(Some(_))),
            "no number is known yet"
        );
        fast_path.released("/a", 7, Some(&watch));
        (fast_path, watch)
    }

    #[test]
    fn a_lock_that_is_held_again_and_again_is_expected_to_be_free() {
        let (fast_path, _watch) = held_twice();
        assert!(matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::ExpectAlone(8, _)));
        assert!(matches!(fast_path.plan("/a", Mode::Read), ClaimPlan::List(Some(_))));
        assert!(matches!(fast_path.plan("/b", Mode::Exclusive), ClaimPlan::List(None)));
        fast_path.contended("/a");
        assert!(matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::List(Some(_))));
    }

    #[test]
    fn no_number_is_expected_of_a_node_that_may_be_another() {
        let (fast_path, watch) = held_twice();
        watch.end();
        let ClaimPlan::ListAndWatch(next) = fast_path.plan("/a", Mode::Exclusive) else {
            panic!("the watch has ended")
        };
        fast_path.watched("/a", &next);
        // Claimed under the former watch, released under the next.
        fast_path.released("/a", 7, Some(&watch));
        assert!(matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::List(Some(_))));
        fast_path.released("/a", 0, None);
        assert!(matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::List(Some(_))));
    }

    #[test]
    fn locks_that_are_used_once_do_not_pile_up() {
        let (fast_path, _watch) = held_twice();
        (0..3 * MAX_LOCKS).for_each(|lock| fast_path.released(&format!("/{lock}"), 0, None));
        assert!(lock_ignoring_poison(&fast_path.locks).len() <= MAX_LOCKS);
        assert!(
            matches!(fast_path.plan("/a", Mode::Exclusive), ClaimPlan::ExpectAlone(8, _)),
            "a watched lock is not forgotten"
        );
    }
}
