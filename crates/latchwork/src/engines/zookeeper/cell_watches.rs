//! The watches of cells: one for each cell, however many tasks wait for its next change and however many gave
//! up waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use super::wire::Watcher;
use crate::poison::lock_ignoring_poison;

/// The active watches, by the paths of their cells.
#[derive(Default)]
pub(super) struct CellWatches {
    active: Mutex<HashMap<String, Weak<ActiveCellWatch>>>,
}

/// Lives as long as the watcher of a cell: until the server has reported a change, the request has failed, or
/// the connection is lost. However it ends, all waiting tasks are notified.
pub(super) struct ActiveCellWatch {
    pub(super) notify: Arc<Notify>,
}

impl Drop for ActiveCellWatch {
    fn drop(&mut self) {
        self.notify.notify_waiters();
    }
}

impl CellWatches {
    /// Lets `send` read the cell, with a watcher if the cell has no active watch. Both happen under one lock,
    /// so that a task that finds an active watch reads the cell after the watch was sent. The caller must
    /// drop the returned watch before it waits to be notified: otherwise the watch never ends.
    pub(super) fn join<T>(
        &self,
        path: &str,
        send: impl FnOnce(Option<Watcher>) -> T,
    ) -> (Arc<ActiveCellWatch>, T) {
        let mut active = lock_ignoring_poison(&self.active);
        if let Some(watch) = active.get(path).and_then(Weak::upgrade) {
            return (watch, send(None));
        }
        active.retain(|_, watch| watch.strong_count() > 0);
        let watch = Arc::new(ActiveCellWatch { notify: Arc::default() });
        active.insert(path.to_owned(), Arc::downgrade(&watch));
        let owned = watch.clone();
        let sent = send(Some(Box::new(move |_| drop(owned))));
        (watch, sent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::NodeEvent;
    use super::*;

    #[tokio::test]
    async fn a_thousand_tasks_that_watch_a_cell_and_give_up_leave_one_watcher() {
        let (watches, mut watchers) = (CellWatches::default(), Vec::new());
        for _ in 0..1_000 {
            let (active, ()) = watches.join("a", |watcher| watchers.extend(watcher));
            drop(active.notify.clone().notified());
        }
        watches.join("b", |watcher| watchers.extend(watcher));
        assert_eq!(watchers.len(), 2, "one for each cell");
        // However the watch ends, the waiting task is notified, and the next task gets a new watch.
        for is_event in [true, false] {
            let (active, ()) = watches.join("a", |watcher| assert!(watcher.is_none()));
            let notify = active.notify.clone();
            let mut notified = std::pin::pin!(notify.notified());
            notified.as_mut().enable();
            drop(active);
            let watcher = watchers.remove(0);
            match is_event {
                true => watcher.notify(NodeEvent::Changed),
                false => drop(watcher),
            }
            notified.await;
            watches.join("a", |watcher| watchers.insert(0, watcher.expect("no active watch")));
        }
        assert_eq!(watchers.len(), 2);
    }

    /// The event comes while a task joins that has found an active watch.
    #[tokio::test]
    async fn a_task_that_joins_just_before_the_event_is_notified() {
        let (watches, mut watchers) = (CellWatches::default(), Vec::new());
        watches.join("a", |watcher| watchers.extend(watcher));
        let (active, ()) = watches.join("a", |watcher| assert!(watcher.is_none()));
        watchers.remove(0).notify(NodeEvent::Changed);
        let notify = active.notify.clone();
        let mut notified = std::pin::pin!(notify.notified());
        notified.as_mut().enable();
        drop(active);
        notified.await;
    }
}
