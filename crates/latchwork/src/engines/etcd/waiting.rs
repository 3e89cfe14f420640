//! What a queued claim waits for: that one of those before it goes, or that its own key does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::connection::Connection;
use super::watches::{Bell, Watch};

/// One claim's interest in a few keys.
pub(super) struct Waiting {
    watches: Vec<(Vec<u8>, Arc<Watch>)>,
    bell: Arc<Notify>,
    /// Whether it was looked once more since the server began to watch.
    looked: AtomicBool,
}

impl Waiting {
    /// Watches these keys: those before it, and its own, because a waiter whose key is gone would wait for ever. What
    /// `former` watches already goes on being watched: of several permits before it, mostly one has left.
    pub(super) fn new(connection: &Connection, keys: &[&[u8]], former: Option<&Self>) -> Self {
        let bell = former.map_or_else(Arc::<Notify>::default, |former| former.bell.clone());
        let watch = |key: &&[u8]| {
            let watched = former.and_then(|former| former.watch_of(key));
            let begin =
                || Arc::new(connection.watches.watch(connection, key.to_vec(), Bell::Waiter(bell.clone())));
            (key.to_vec(), watched.unwrap_or_else(begin))
        };
        let watches = keys.iter().map(watch).collect();
        Self { watches, bell, looked: AtomicBool::new(false) }
    }

    /// The watch of this key, if nothing happened to it.
    fn watch_of(&self, key: &[u8]) -> Option<Arc<Watch>> {
        let unchanged =
            |(watched, watch): &&(Vec<u8>, Arc<Watch>)| watched == key && !watch.seen().is_changed;
        self.watches.iter().find(unchanged).map(|(_, watch)| watch.clone())
    }

    /// Whether it still waits for these keys, and nothing happened to any.
    pub(super) fn is_for(&self, keys: &[&[u8]]) -> bool {
        self.watches.iter().map(|(key, _)| key.as_slice()).eq(keys.iter().copied()) && !self.is_changed()
    }

    fn is_changed(&self) -> bool {
        self.watches.iter().any(|(_, watch)| watch.seen().is_changed)
    }

    /// Ends when it makes sense to look again: something changed, or the server has only now begun to watch, and what
    /// happened before was not told.
    pub(super) async fn until_news(&self) {
        loop {
            let is_new = self.watches.iter().all(|(_, watch)| watch.seen().is_created)
                && !self.looked.load(Ordering::Relaxed);
            if is_new {
                self.looked.store(true, Ordering::Relaxed);
                return;
            }
            if self.is_changed() {
                return;
            }
            self.bell.notified().await;
        }
    }
}
