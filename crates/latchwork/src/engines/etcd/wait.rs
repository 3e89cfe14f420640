//! Waits until the position of a queued claim may have changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::Etcd;
use super::connection::Connection;
use super::key_watch::{KeyWatch, WatchRecipient};
use crate::Result;
use crate::engine::{Busy, Claim, Wake};

impl Etcd {
    pub(super) async fn wait_for_change(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        // The claim's own key, and the keys that block it: see `claim.rs`.
        let keys: Vec<_> = busy.mark.0.split(|byte| *byte == 0).collect();
        let Some(claim_key) = self.shared.find(claim.id) else { return Ok(Wake::Recheck) };
        let watches = match claim_key.waiter_watches {
            Some(watches) if watches.are_unchanged(&keys) => watches,
            former => {
                let connection = self.shared.connection().await?;
                let watches = Arc::new(WaiterWatches::new(&connection, &keys, former.as_deref()));
                self.shared.update(claim.id, |claim_key| claim_key.waiter_watches = Some(watches.clone()));
                watches
            }
        };
        watches.until_changed().await;
        Ok(Wake::Recheck)
    }
}

/// The watches of one claim that waits.
pub(super) struct WaiterWatches {
    watches: Vec<(Vec<u8>, Arc<KeyWatch>)>,
    notify: Arc<Notify>,
    /// Whether the claim has read its position since the server created the watches.
    has_rechecked: AtomicBool,
}

impl WaiterWatches {
    /// Watches these keys: the blocking ones, and the claim's own, because a waiter whose key is gone would
    /// wait forever. Unchanged watches of `former` are kept: of several permits before a waiter, mostly one
    /// has left.
    fn new(connection: &Connection, keys: &[&[u8]], former: Option<&Self>) -> Self {
        let notify = former.map_or_else(Arc::<Notify>::default, |former| former.notify.clone());
        let watch = |key: &&[u8]| {
            let kept = former.and_then(|former| former.unchanged_watch(key));
            let create = || {
                let recipient = WatchRecipient::Waiter(notify.clone());
                Arc::new(connection.watch_stream.watch(connection, key.to_vec(), recipient))
            };
            (key.to_vec(), kept.unwrap_or_else(create))
        };
        let watches = keys.iter().map(watch).collect();
        Self { watches, notify, has_rechecked: AtomicBool::new(false) }
    }

    fn unchanged_watch(&self, key: &[u8]) -> Option<Arc<KeyWatch>> {
        let is_unchanged =
            |(watched, watch): &&(Vec<u8>, Arc<KeyWatch>)| watched == key && !watch.status().is_changed;
        self.watches.iter().find(is_unchanged).map(|(_, watch)| watch.clone())
    }

    /// Whether these are watches of exactly these keys, and no key has changed.
    fn are_unchanged(&self, keys: &[&[u8]]) -> bool {
        self.watches.iter().map(|(key, _)| key.as_slice()).eq(keys.iter().copied()) && !self.is_changed()
    }

    fn is_changed(&self) -> bool {
        self.watches.iter().any(|(_, watch)| watch.status().is_changed)
    }

    /// Waits until the position has to be read again: a key has changed; or the server has just created the
    /// watches, and earlier changes were not reported.
    async fn until_changed(&self) {
        loop {
            let is_first_check = self.watches.iter().all(|(_, watch)| watch.status().is_created)
                && !self.has_rechecked.load(Ordering::Relaxed);
            if is_first_check {
                self.has_rechecked.store(true, Ordering::Relaxed);
                return;
            }
            if self.is_changed() {
                return;
            }
            self.notify.notified().await;
        }
    }
}
