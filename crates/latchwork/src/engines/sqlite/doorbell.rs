//! Hands what arrives at a session's FIFO to the claims that wait for it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::session::{News, Session, read_news};
use crate::engine::ClaimId;
use crate::poison::lock_ignoring_poison;

/// The waiting claims of one session.
#[derive(Default)]
pub(super) struct Doorbell {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    claims: HashMap<ClaimId, Slot>,
    /// One per runtime that somebody waits in: a runtime that nobody drives must not keep the news from the others.
    readers: HashMap<runtime::Id, Reading>,
    readers_made: u64,
}

/// A reader that runs, or is about to.
struct Reading {
    number: u64,
    task: Option<AbortHandle>,
}

/// A claim's place in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Zero: not known.
    pub(super) ticket: i64,
    /// Zero: not granted.
    pub(super) token: u64,
}

#[derive(Default)]
struct Slot {
    place: Place,
    news: Option<News>,
    bell: Arc<Notify>,
}

impl Doorbell {
    /// Keeps what arrives for `id` from now on. Called before the claim is queued: news may come before `wait` does.
    pub(super) fn expect(&self, id: ClaimId) {
        lock_ignoring_poison(&self.inner.waiting).claims.entry(id).or_default();
    }

    /// Where the claim stands in its queue, and its token if it was granted there.
    pub(super) fn place(&self, id: ClaimId, place: Place) {
        if let Some(slot) = lock_ignoring_poison(&self.inner.waiting).claims.get_mut(&id) {
            slot.place = place;
        }
    }

    /// Forgets a claim. Returns where it stood, if it ever stood in a queue.
    pub(super) fn forget(&self, id: ClaimId) -> Option<Place> {
        lock_ignoring_poison(&self.inner.waiting).claims.remove(&id).map(|slot| slot.place)
    }

    /// The next news for `id`, which must be expected. May be dropped at any time: news stay until they are returned.
    pub(super) async fn next(&self, id: ClaimId, session: &Session) -> io::Result<News> {
        loop {
            self.inner.read_from(session)?;
            let bell = match lock_ignoring_poison(&self.inner.waiting).claims.get_mut(&id) {
                None => return Ok(News::recheck(id)),
                Some(slot) => match slot.news.take() {
                    Some(news) => return Ok(news),
                    None => slot.bell.clone(),
                },
            };
            bell.notified().await;
        }
    }

    /// Reads from the session's descriptor as it is now: every reader ends, and whoever waits starts another and asks
    /// again, because what the old one had not read yet is lost.
    pub(super) fn restart(&self) {
        let readers = {
            let mut waiting = lock_ignoring_poison(&self.inner.waiting);
            let ids: Vec<_> = waiting.claims.keys().copied().collect();
            ids.into_iter().for_each(|id| waiting.deliver(News::recheck(id)));
            std::mem::take(&mut waiting.readers)
        };
        // With the mutex free again: a reader's drop wants it too.
        readers.into_values().filter_map(|reading| reading.task).for_each(|task| task.abort());
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        self.restart();
    }
}

impl Waiting {
    fn deliver(&mut self, news: News) {
        if let Some(slot) = self.claims.get_mut(&news.id) {
            // A grant is never overwritten by "look again".
            if news.is_grant() {
                slot.place.token = news.token;
            }
            if news.is_grant() || slot.news.is_none() {
                slot.news = Some(news);
            }
            slot.bell.notify_one();
        }
    }
}

impl Inner {
    /// Starts a reader on the current runtime, unless one runs there.
    fn read_from(self: &Arc<Self>, session: &Session) -> io::Result<()> {
        let runtime = Handle::current();
        if lock_ignoring_poison(&self.waiting).readers.contains_key(&runtime.id()) {
            return Ok(());
        }
        let fifo = Receiver::from_owned_fd(session.descriptor()?)?;
        let number = {
            let mut waiting = lock_ignoring_poison(&self.waiting);
            if waiting.readers.contains_key(&runtime.id()) {
                return Ok(()); // Another waiter was faster.
            }
            waiting.readers_made += 1;
            let number = waiting.readers_made;
            waiting.readers.insert(runtime.id(), Reading { number, task: None });
            number
        };
        let reader = Reader { inner: Arc::downgrade(self), runtime: runtime.id(), number };
        // Not while the mutex is locked: a runtime that is shutting down drops the task here and now.
        let task = runtime.spawn(reader.run(fifo)).abort_handle();
        match lock_ignoring_poison(&self.waiting)
            .readers
            .get_mut(&runtime.id())
            .filter(|reading| reading.number == number)
        {
            Some(reading) => reading.task = Some(task),
            None => task.abort(), // Restarted meanwhile.
        }
        Ok(())
    }
}

/// The task that reads the FIFO. When it ends (its runtime may), every waiter looks again, and one starts another.
struct Reader {
    inner: Weak<Inner>,
    runtime: runtime::Id,
    number: u64,
}

impl Reader {
    async fn run(self, fifo: Receiver) -> io::Result<()> {
        loop {
            let news = read_news(&fifo).await?;
            let Some(inner) = self.inner.upgrade() else { return Ok(()) };
            let mut waiting = lock_ignoring_poison(&inner.waiting);
            news.into_iter().for_each(|news| waiting.deliver(news));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            let mut waiting = lock_ignoring_poison(&inner.waiting);
            if waiting.readers.get(&self.runtime).is_some_and(|reading| reading.number == self.number) {
                waiting.readers.remove(&self.runtime);
            }
            waiting.claims.values().for_each(|slot| slot.bell.notify_one());
        }
    }
}
