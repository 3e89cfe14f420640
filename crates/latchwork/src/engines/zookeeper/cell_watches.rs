//! The watches over cells: one for each cell, however many wait for its next change and however many gave up waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use super::wire::Watcher;
use crate::poison::lock_ignoring_poison;

/// What is watched, by the paths of cells.
#[derive(Default)]
pub(super) struct CellWatches {
    standing: Mutex<HashMap<String, Weak<Listening>>>,
}

/// Lives in what listens for a cell: until the server has told, the request has failed, or the connection is lost. However it
/// ends, all who wait are told.
pub(super) struct Listening {
    pub(super) bell: Arc<Notify>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.bell.notify_waiters();
    }
}

impl CellWatches {
    /// Lets `post` send a look at the cell, with what listens if nobody does yet: in one step, so that nobody who finds it
    /// watched looks before it is. Keep what listens only until the bell is waited for, or it never rings.
    pub(super) fn join<T>(&self, path: &str, post: impl FnOnce(Option<Watcher>) -> T) -> (Arc<Listening>, T) {
        let mut standing = lock_ignoring_poison(&self.standing);
        if let Some(listening) = standing.get(path).and_then(Weak::upgrade) {
            return (listening, post(None));
        }
        standing.retain(|_, watched| watched.strong_count() > 0);
        let listening = Arc::new(Listening { bell: Arc::default() });
        standing.insert(path.to_owned(), Arc::downgrade(&listening));
        let listens = listening.clone();
        let posted = post(Some(Box::new(move |_| drop(listens))));
        (listening, posted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Event;
    use super::*;

    #[tokio::test]
    async fn a_thousand_who_watch_a_cell_and_give_up_leave_one_that_listens() {
        let (watches, mut listen) = (CellWatches::default(), Vec::new());
        for _ in 0..1_000 {
            let (listening, ()) = watches.join("a", |watcher| listen.extend(watcher));
            drop(listening.bell.clone().notified());
        }
        watches.join("b", |watcher| listen.extend(watcher));
        assert_eq!(listen.len(), 2, "one for each cell");
        // However it ends, whoever waits is told, and the next who comes is watched for.
        for is_told in [true, false] {
            let (listening, ()) = watches.join("a", |watcher| assert!(watcher.is_none()));
            let bell = listening.bell.clone();
            let mut told = std::pin::pin!(bell.notified());
            told.as_mut().enable();
            drop(listening);
            let watcher = listen.remove(0);
            match is_told {
                true => watcher.tell(Event::Changed),
                false => drop(watcher),
            }
            told.await;
            watches.join("a", |watcher| listen.insert(0, watcher.expect("nobody listens")));
        }
        assert_eq!(listen.len(), 2);
    }

    /// Told while somebody joins, who found that it was watched.
    #[tokio::test]
    async fn who_joins_just_then_is_told() {
        let (watches, mut listen) = (CellWatches::default(), Vec::new());
        watches.join("a", |watcher| listen.extend(watcher));
        let (listening, ()) = watches.join("a", |watcher| assert!(watcher.is_none()));
        listen.remove(0).tell(Event::Changed);
        let bell = listening.bell.clone();
        let mut told = std::pin::pin!(bell.notified());
        told.as_mut().enable();
        drop(listening);
        told.await;
    }
}
