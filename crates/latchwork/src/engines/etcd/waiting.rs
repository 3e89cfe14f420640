//! What a queued claim waits for: that the one before it goes, or that its own key does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::link::Link;
use super::watches::{Bell, Watch};

/// One claim's interest in two keys.
pub(super) struct Waiting {
    predecessor: Vec<u8>,
    watches: [Watch; 2],
    bell: Arc<Notify>,
    /// Whether it was looked once more since the server began to watch.
    looked: AtomicBool,
}

impl Waiting {
    /// Watches the key just before, and its own: a waiter whose key is gone would wait for ever.
    pub(super) fn new(link: &Link, own: &[u8], predecessor: &[u8]) -> Self {
        let bell = Arc::<Notify>::default();
        let watch = |key: &[u8]| link.watches.watch(link, key.to_vec(), Bell::Waiter(bell.clone()));
        let watches = [watch(predecessor), watch(own)];
        Self { predecessor: predecessor.to_vec(), watches, bell, looked: AtomicBool::new(false) }
    }

    /// Whether it still waits for this one, and nothing happened to it.
    pub(super) fn is_for(&self, predecessor: &[u8]) -> bool {
        self.predecessor == predecessor && !self.is_changed()
    }

    fn is_changed(&self) -> bool {
        self.watches.iter().any(|watch| watch.seen().is_changed)
    }

    /// Ends when it makes sense to look again: something changed, or the server has only now begun to watch, and what
    /// happened before was not told.
    pub(super) async fn until_news(&self) {
        loop {
            let is_new = self.watches.iter().all(|watch| watch.seen().is_created)
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
