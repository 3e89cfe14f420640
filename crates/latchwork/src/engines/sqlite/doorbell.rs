//! Hands what arrives at a session's FIFO to the claims that wait for it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::session::{News, Session, read_news};
use crate::engine::ClaimId;

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
    reader: Option<AbortHandle>,
}

#[derive(Default)]
struct Slot {
    news: Option<News>,
    bell: Arc<Notify>,
}

impl Doorbell {
    /// Keeps what arrives for `id` from now on. Called before the claim is queued: news may come before `wait` does.
    pub(super) fn expect(&self, id: ClaimId) {
        self.inner.waiting().claims.entry(id).or_default();
    }

    /// Forgets a claim that waits no longer.
    pub(super) fn forget(&self, id: ClaimId) {
        self.inner.waiting().claims.remove(&id);
    }

    /// The next news for `id`, which must be expected. May be dropped at any time: news stay until they are returned.
    pub(super) async fn next(&self, id: ClaimId, session: &Session) -> io::Result<News> {
        loop {
            let bell = {
                let mut waiting = self.inner.waiting();
                waiting.read_from(session, &self.inner)?;
                let Some(slot) = waiting.claims.get_mut(&id) else { return Ok(News::recheck(id)) };
                match slot.news.take() {
                    Some(news) => return Ok(news),
                    None => slot.bell.clone(),
                }
            };
            bell.notified().await;
        }
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        // A statement of its own, so that the mutex is free again: the reader's drop wants it too.
        let reader = self.inner.waiting().reader.take();
        if let Some(reader) = reader {
            reader.abort();
        }
    }
}

impl Waiting {
    /// Starts the reader on the current runtime, unless one runs somewhere.
    fn read_from(&mut self, session: &Session, inner: &Arc<Inner>) -> io::Result<()> {
        if self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) {
            return Ok(());
        }
        let fifo = Receiver::from_owned_fd(session.descriptor()?)?;
        let reader = Reader(Arc::downgrade(inner));
        self.reader = Some(tokio::spawn(reader.run(fifo)).abort_handle());
        Ok(())
    }

    fn deliver(&mut self, news: News) {
        if let Some(slot) = self.claims.get_mut(&news.id) {
            // A grant is never overwritten by "look again".
            if news.is_grant() || slot.news.is_none() {
                slot.news = Some(news);
            }
            slot.bell.notify_one();
        }
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that reads the FIFO. When it ends (its runtime may), every waiter looks again, and one starts another.
struct Reader(Weak<Inner>);

impl Reader {
    async fn run(self, fifo: Receiver) -> io::Result<()> {
        loop {
            let news = read_news(&fifo).await?;
            let Some(inner) = self.0.upgrade() else { return Ok(()) };
            let mut waiting = inner.waiting();
            news.into_iter().for_each(|news| waiting.deliver(news));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            let mut waiting = inner.waiting();
            waiting.reader = None;
            waiting.claims.values().for_each(|slot| slot.bell.notify_one());
        }
    }
}
