//! Subscriptions to the channels of cells that are watched through one connection.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock};

use crate::Result;
use crate::poison::lock_ignoring_poison;

/// The subscribed channels. When the connection ends, every watcher is woken.
#[derive(Default)]
pub(super) struct CellSubscriptions {
    channels: Mutex<HashMap<String, Channel>>,
    /// Held shared by SUBSCRIBE and exclusively by UNSUBSCRIBE, so that the UNSUBSCRIBE of the last watcher
    /// cannot overtake the SUBSCRIBE of a new one.
    subscribing: RwLock<()>,
}

#[derive(Default)]
struct Channel {
    bell: Arc<Notify>,
    watchers: usize,
}

impl CellSubscriptions {
    /// Wakes the watchers of a channel on which a message arrived.
    pub(super) fn notify(&self, channel: &str) {
        if let Some(channel) = lock_ignoring_poison(&self.channels).get(channel) {
            channel.bell.notify_waiters();
        }
    }

    /// Wakes every watcher, because no more messages arrive.
    pub(super) fn notify_all(&self) {
        lock_ignoring_poison(&self.channels).values().for_each(|channel| channel.bell.notify_waiters());
    }

    /// Waits for the next message on `channel`. Returns at once if `has_changed` finds a change after
    /// `subscribe` is done. The last watcher of a channel runs `unsubscribe`.
    pub(super) async fn wait_for_message<E: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        channel: &str,
        subscribe: impl Future<Output = Result<()>>,
        has_changed: impl Future<Output = Result<bool>>,
        unsubscribe: impl FnOnce() -> E + Send + 'static,
    ) -> Result<()> {
        let (watching, bell) = WatchGuard::new(self, channel, unsubscribe);
        let mut message = std::pin::pin!(bell.notified());
        // Enabled before `has_changed`, so that a later message is not missed.
        message.as_mut().enable();
        {
            let _subscribing = self.subscribing.read().await;
            subscribe.await?;
        }
        if !has_changed.await? {
            message.await;
        }
        drop(watching);
        Ok(())
    }

    fn is_watched(&self, channel: &str) -> bool {
        lock_ignoring_poison(&self.channels).contains_key(channel)
    }
}

/// A watcher. It may be dropped at any await; the last one unsubscribes in the background.
struct WatchGuard<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> {
    subscriptions: Arc<CellSubscriptions>,
    channel: String,
    unsubscribe: Option<F>,
    runtime: Handle,
}

impl<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> WatchGuard<E, F> {
    fn new(subscriptions: &Arc<CellSubscriptions>, channel: &str, unsubscribe: F) -> (Self, Arc<Notify>) {
        let bell = {
            let mut channels = lock_ignoring_poison(&subscriptions.channels);
            let watched = channels.entry(channel.to_owned()).or_default();
            watched.watchers += 1;
            watched.bell.clone()
        };
        let (subscriptions, channel, runtime) =
            (subscriptions.clone(), channel.to_owned(), Handle::current());
        (Self { subscriptions, channel, unsubscribe: Some(unsubscribe), runtime }, bell)
    }

    /// Removes this watcher. Returns whether it was the last one of its channel.
    fn remove_is_last(&self) -> bool {
        let mut channels = lock_ignoring_poison(&self.subscriptions.channels);
        let Some(watched) = channels.get_mut(&self.channel) else { return false };
        watched.watchers -= 1;
        let is_last = watched.watchers == 0;
        if is_last {
            channels.remove(&self.channel);
        }
        is_last
    }
}

impl<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> Drop for WatchGuard<E, F> {
    fn drop(&mut self) {
        let Some(unsubscribe) = self.unsubscribe.take().filter(|_| self.remove_is_last()) else { return };
        let (subscriptions, channel) = (self.subscriptions.clone(), std::mem::take(&mut self.channel));
        self.runtime.spawn(async move {
            let _unsubscribing = subscriptions.subscribing.write().await;
            if !subscriptions.is_watched(&channel) {
                unsubscribe().await;
            }
        });
    }
}

/// Held by the task that drives the connection, and dropped with it.
pub(super) struct WakesWatchersOnDrop(pub(super) Arc<CellSubscriptions>);

impl Drop for WakesWatchersOnDrop {
    fn drop(&mut self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watcher that arrives while the last one unsubscribes subscribes after that, or prevents it.
    #[tokio::test]
    async fn a_watcher_that_arrives_while_the_last_one_unsubscribes_is_woken() {
        let subscriptions = Arc::<CellSubscriptions>::default();
        let speaks = Arc::<Mutex<bool>>::default();
        let watch = || {
            let (listens, ends) = (speaks.clone(), speaks.clone());
            let listen = async move {
                *lock_ignoring_poison(&listens) = true;
                Ok(())
            };
            let end = move || async move {
                tokio::task::yield_now().await;
                *lock_ignoring_poison(&ends) = false;
            };
            let subscriptions = subscriptions.clone();
            async move { subscriptions.wait_for_message("a", listen, async { Ok(false) }, end).await }
        };
        for yields in 0..20 {
            let first = tokio::spawn(watch());
            tokio::task::yield_now().await;
            assert!(*lock_ignoring_poison(&speaks));
            first.abort();
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            let second = tokio::spawn(watch());
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(*lock_ignoring_poison(&speaks) && subscriptions.is_watched("a"), "deaf after {yields}");
            subscriptions.notify("a");
            second.await.expect("no panic").expect("told");
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(!*lock_ignoring_poison(&speaks) && !subscriptions.is_watched("a"), "nobody is left");
        }
    }
}
