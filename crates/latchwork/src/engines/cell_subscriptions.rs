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
    /// A message arrived on this channel.
    pub(super) fn tell(&self, channel: &str) {
        if let Some(channel) = lock_ignoring_poison(&self.channels).get(channel) {
            channel.bell.notify_waiters();
        }
    }

    /// No more messages arrive: every watcher is woken.
    pub(super) fn tell_all(&self) {
        lock_ignoring_poison(&self.channels).values().for_each(|channel| channel.bell.notify_waiters());
    }

    /// Waits for the next message on `channel`. Returns at once if `look` finds a change after `listen` has
    /// subscribed. The last watcher of a channel unsubscribes with `end`.
    pub(super) async fn until_told<E: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        channel: &str,
        listen: impl Future<Output = Result<()>>,
        look: impl Future<Output = Result<bool>>,
        end: impl FnOnce() -> E + Send + 'static,
    ) -> Result<()> {
        let (watching, bell) = Watching::begin(self, channel, end);
        let mut told = std::pin::pin!(bell.notified());
        // Before the look, so that a message after it is noticed.
        told.as_mut().enable();
        {
            let _subscribing = self.subscribing.read().await;
            listen.await?;
        }
        if !look.await? {
            told.await;
        }
        drop(watching);
        Ok(())
    }

    fn is_watched(&self, channel: &str) -> bool {
        lock_ignoring_poison(&self.channels).contains_key(channel)
    }
}

/// A watcher. It may be dropped at any await; the last one unsubscribes in the background.
struct Watching<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> {
    subscriptions: Arc<CellSubscriptions>,
    channel: String,
    end: Option<F>,
    runtime: Handle,
}

impl<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> Watching<E, F> {
    fn begin(subscriptions: &Arc<CellSubscriptions>, channel: &str, end: F) -> (Self, Arc<Notify>) {
        let bell = {
            let mut channels = lock_ignoring_poison(&subscriptions.channels);
            let watched = channels.entry(channel.to_owned()).or_default();
            watched.watchers += 1;
            watched.bell.clone()
        };
        let (subscriptions, channel, runtime) =
            (subscriptions.clone(), channel.to_owned(), Handle::current());
        (Self { subscriptions, channel, end: Some(end), runtime }, bell)
    }

    /// Whether nobody watches any more.
    fn was_last(&self) -> bool {
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

impl<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> Drop for Watching<E, F> {
    fn drop(&mut self) {
        let Some(end) = self.end.take().filter(|_| self.was_last()) else { return };
        let (subscriptions, channel) = (self.subscriptions.clone(), std::mem::take(&mut self.channel));
        self.runtime.spawn(async move {
            let _unsubscribing = subscriptions.subscribing.write().await;
            if !subscriptions.is_watched(&channel) {
                end().await;
            }
        });
    }
}

/// Lives in what drives the connection, and is dropped with it.
#[cfg(feature = "postgres")]
pub(super) struct SubscriptionsDriven(pub(super) Arc<CellSubscriptions>);

#[cfg(feature = "postgres")]
impl Drop for SubscriptionsDriven {
    fn drop(&mut self) {
        self.0.tell_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever comes while the last one's leaving is under way listens after that, or keeps it from happening.
    #[tokio::test]
    async fn who_comes_just_when_the_last_one_leaves_is_told() {
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
            async move { subscriptions.until_told("a", listen, async { Ok(false) }, end).await }
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
            subscriptions.tell("a");
            second.await.expect("no panic").expect("told");
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(!*lock_ignoring_poison(&speaks) && !subscriptions.is_watched("a"), "nobody is left");
        }
    }
}
