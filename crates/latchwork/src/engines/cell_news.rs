//! What the server said of cells that are watched through one connection.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock};

use crate::Result;
use crate::locked::locked;

/// The channels that a connection listens to for the sake of cells. When the connection ends, all are told.
#[derive(Default)]
pub(super) struct CellNews {
    channels: Mutex<HashMap<String, Channel>>,
    /// Read by those who make the server speak, written by those who make it silent: what is asked for by one who came just
    /// then must not be taken back after it.
    speaking: RwLock<()>,
}

#[derive(Default)]
struct Channel {
    bell: Arc<Notify>,
    watchers: usize,
}

impl CellNews {
    /// Something was said on this channel.
    pub(super) fn tell(&self, channel: &str) {
        if let Some(channel) = locked(&self.channels).get(channel) {
            channel.bell.notify_waiters();
        }
    }

    /// Nothing is heard any more.
    pub(super) fn tell_all(&self) {
        locked(&self.channels).values().for_each(|channel| channel.bell.notify_waiters());
    }

    /// Ends with the next message on `channel`; or at once, if `look` finds a change after `listen` has made the server speak
    /// there. When the last who watches is gone, `end` makes it silent.
    pub(super) async fn until_told<E: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        channel: &str,
        listen: impl Future<Output = Result<()>>,
        look: impl Future<Output = Result<bool>>,
        end: impl FnOnce() -> E + Send + 'static,
    ) -> Result<()> {
        let (watching, bell) = Watching::begin(self, channel, end);
        let mut told = std::pin::pin!(bell.notified());
        // Before the look: what is said after it is heard.
        told.as_mut().enable();
        {
            let _speaking = self.speaking.read().await;
            listen.await?;
        }
        if !look.await? {
            told.await;
        }
        drop(watching);
        Ok(())
    }

    fn is_watched(&self, channel: &str) -> bool {
        locked(&self.channels).contains_key(channel)
    }
}

/// One who watches. The last one that is dropped ends it for the server, in the background: it may be dropped at any await.
struct Watching<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> {
    news: Arc<CellNews>,
    channel: String,
    end: Option<F>,
    runtime: Handle,
}

impl<E: Future<Output = ()> + Send + 'static, F: FnOnce() -> E + Send + 'static> Watching<E, F> {
    fn begin(news: &Arc<CellNews>, channel: &str, end: F) -> (Self, Arc<Notify>) {
        let bell = {
            let mut channels = locked(&news.channels);
            let watched = channels.entry(channel.to_owned()).or_default();
            watched.watchers += 1;
            watched.bell.clone()
        };
        let (news, channel, runtime) = (news.clone(), channel.to_owned(), Handle::current());
        (Self { news, channel, end: Some(end), runtime }, bell)
    }

    /// Whether nobody watches any more.
    fn was_last(&self) -> bool {
        let mut channels = locked(&self.news.channels);
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
        let (news, channel) = (self.news.clone(), std::mem::take(&mut self.channel));
        self.runtime.spawn(async move {
            let _silencing = news.speaking.write().await;
            if !news.is_watched(&channel) {
                end().await;
            }
        });
    }
}

/// Lives in what drives the connection, and is dropped with it.
#[cfg(feature = "postgres")]
pub(super) struct CellNewsDriven(pub(super) Arc<CellNews>);

#[cfg(feature = "postgres")]
impl Drop for CellNewsDriven {
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
        let news = Arc::<CellNews>::default();
        let speaks = Arc::<Mutex<bool>>::default();
        let watch = || {
            let (listens, ends) = (speaks.clone(), speaks.clone());
            let listen = async move {
                *locked(&listens) = true;
                Ok(())
            };
            let end = move || async move {
                tokio::task::yield_now().await;
                *locked(&ends) = false;
            };
            let news = news.clone();
            async move { news.until_told("a", listen, async { Ok(false) }, end).await }
        };
        for yields in 0..20 {
            let first = tokio::spawn(watch());
            tokio::task::yield_now().await;
            assert!(*locked(&speaks));
            first.abort();
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            let second = tokio::spawn(watch());
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(*locked(&speaks) && news.is_watched("a"), "deaf after {yields}");
            news.tell("a");
            second.await.expect("no panic").expect("told");
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            assert!(!*locked(&speaks) && !news.is_watched("a"), "nobody is left");
        }
    }
}
