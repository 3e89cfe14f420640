//! Locks that nobody else wanted since this client held them last: they need no listing.
//!
//! The server numbers the nodes below a lock's own node one by one. Whoever held with number k, has given that back and
//! gets number k + 1 knows that nobody came in between, and nobody was ahead of k: it holds. That is so as long as the
//! lock's own node is the same, because a new one counts from zero; therefore that node is watched. What the server tells
//! of it comes before the answer to whatever is asked after it, so a watch that stands when the answer comes is proof.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::wire::Watcher;
use crate::engine::Mode;
use crate::poison::lock_ignoring_poison;

/// So many locks are known at most. What is watched stays known, or it would be watched twice.
const MOST: usize = 1_024;

/// What is known of locks, by the paths of their own nodes.
#[derive(Default)]
pub(super) struct FastPath {
    locks: Mutex<HashMap<String, Seen>>,
}

#[derive(Default)]
struct Seen {
    watch: Option<Standing>,
    /// The number that was held and given back last, in the very node that is watched.
    last: Option<i32>,
}

/// A watch over a lock's own node. It stands until the server tells anything of that node, or the connection breaks.
#[derive(Clone, Debug)]
pub(super) struct Standing(Arc<AtomicBool>);

/// How a claim is to be made.
pub(super) enum Plan {
    /// Others are listed; the claim is made while this watch stands, if there is one.
    List(Option<Standing>),
    /// The same, and the lock's own node is watched from then on.
    Watch(Standing),
    /// If it gets this number and the watch still stands, nobody else is there.
    Alone(i32, Standing),
}

impl Standing {
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(super) fn stands(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// It says nothing any more.
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

impl Seen {
    fn standing(&self) -> Option<&Standing> {
        self.watch.as_ref().filter(|watch| watch.stands())
    }
}

impl FastPath {
    /// How to make a claim to the lock at `path`. A lock is watched when it is wanted for the second time.
    pub(super) fn plan(&self, path: &str, mode: Mode) -> Plan {
        let locks = lock_ignoring_poison(&self.locks);
        match locks.get(path) {
            None => Plan::List(None),
            Some(seen) => match (seen.standing(), seen.last) {
                // Others may hold beside it, so it may hold with somebody ahead.
                (watch, _) if !matches!(mode, Mode::Exclusive | Mode::Write) => Plan::List(watch.cloned()),
                (None, _) => Plan::Watch(Standing::new()),
                (Some(watch), None) => Plan::List(Some(watch.clone())),
                (Some(watch), Some(last)) => Plan::Alone(last.wrapping_add(1), watch.clone()),
            },
        }
    }

    /// The server watches the lock's own node.
    pub(super) fn watched(&self, path: &str, watch: &Standing) {
        if let Some(seen) = lock_ignoring_poison(&self.locks).get_mut(path) {
            *seen = Seen { watch: Some(watch.clone()), last: None };
        }
    }

    /// Somebody else wants it, too.
    pub(super) fn disturbed(&self, path: &str) {
        lock_ignoring_poison(&self.locks).entry(path.to_owned()).and_modify(|seen| seen.last = None);
    }

    /// A claim that held alone was given back, and the server said so. `watch` stood when it was made.
    pub(super) fn given_back(&self, path: &str, number: i32, watch: Option<&Standing>) {
        let mut locks = lock_ignoring_poison(&self.locks);
        if !locks.contains_key(path) && locks.len() >= MOST {
            locks.retain(|_, seen| seen.standing().is_some());
            if locks.len() >= MOST {
                return;
            }
        }
        let seen = locks.entry(path.to_owned()).or_default();
        // Under another watch, the number may be of a node that is no more.
        let is_same = seen.standing().zip(watch).is_some_and(|(one, other)| one.is(other));
        seen.last = is_same.then_some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock that was held twice, the second time under a watch.
    fn quiet() -> (FastPath, Standing) {
        let quiet = FastPath::default();
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::List(None)));
        quiet.given_back("/a", 6, None);
        let Plan::Watch(watch) = quiet.plan("/a", Mode::Exclusive) else { panic!("it is wanted again") };
        quiet.watched("/a", &watch);
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::List(Some(_))), "nothing is known yet");
        quiet.given_back("/a", 7, Some(&watch));
        (quiet, watch)
    }

    #[test]
    fn a_lock_that_is_held_again_and_again_is_expected_to_be_free() {
        let (quiet, _watch) = quiet();
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::Alone(8, _)));
        assert!(matches!(quiet.plan("/a", Mode::Read), Plan::List(Some(_))));
        assert!(matches!(quiet.plan("/b", Mode::Exclusive), Plan::List(None)));
        quiet.disturbed("/a");
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::List(Some(_))));
    }

    #[test]
    fn nothing_is_expected_of_a_node_that_may_be_another() {
        let (quiet, watch) = quiet();
        watch.end();
        let Plan::Watch(next) = quiet.plan("/a", Mode::Exclusive) else { panic!("the watch is over") };
        quiet.watched("/a", &next);
        // Made under the former watch, told under the next.
        quiet.given_back("/a", 7, Some(&watch));
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::List(Some(_))));
        quiet.given_back("/a", 0, None);
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::List(Some(_))));
    }

    #[test]
    fn locks_that_are_wanted_once_do_not_pile_up() {
        let (quiet, _watch) = quiet();
        (0..3 * MOST).for_each(|lock| quiet.given_back(&format!("/{lock}"), 0, None));
        assert!(lock_ignoring_poison(&quiet.locks).len() <= MOST);
        assert!(matches!(quiet.plan("/a", Mode::Exclusive), Plan::Alone(8, _)), "what is watched stays");
    }
}
